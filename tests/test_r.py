"""The R package: its Python half, and where R is, the package itself."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

import rarecell as rc

R = Path(__file__).parents[1] / "r"


@pytest.fixture(scope="module")
def half() -> ModuleType:
    spec = importlib.util.spec_from_file_location("rarecell_r", R / "inst" / "python" / "rarecell_r.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_missing_values_of_r_are_missing(half: ModuleType) -> None:
    table = half.table(
        {"job": ["NA", "", "x"], "age": [1.0, 0.0, 3.0]}, {"job": [False, True, False], "age": [False, True, False]}
    )
    assert table.to_pydict() == {"job": ["NA", None, "x"], "age": [1.0, None, 3.0]}
    assert half.table({"job": "x"}, {"job": False}).to_pydict() == {"job": ["x"]}


def test_row_numbers_of_r_begin_at_1(half: ModuleType) -> None:
    columns = {"age": [20 + (row * 7) % 23 for row in range(200)], "sex": ["f" if row % 3 else "m" for row in range(200)]}
    frame = half.table(columns, {name: [False] * 200 for name in columns})
    options = {"keys": ["age", "sex"], "population": 3000.0, "model": "single", "weight": None}
    found = half.run("assess", frame, options)
    assert half.risk_columns(found)["record"] == list(range(1, 201))
    assert half.numbers(found)["sample_uniques"] == found.summary.risk.sample_uniques
    protected = half.run("protect", frame, {**options, "records": [5.0, 9.0]})
    assert protected.assessment.config.protect.records == (4, 8)
    back = half.column_back(protected, "age")
    assert sorted(back["values"]) == sorted(columns["age"])
    assert "The question." in half.explain(found)


def test_whatever_was_done_to_a_column_reaches_the_protected_data_of_r(half: ModuleType) -> None:
    """A column that travelled with a swapped key would otherwise give the key back, and a treated one would be as it came."""
    region = [(row * row) % 7 for row in range(300)]
    columns = {
        "age": [20 + (row * 7) % 23 for row in range(300)],
        "region": region,
        "district": [f"district {code}" for code in region],
        "income": [1000.0 + row for row in range(300)],
        "phone": [f"0{row}" for row in range(300)],
        "pets": [row % 2 for row in range(300)],
    }
    frame = half.table(columns, {name: [False] * 300 for name in columns})
    options = {
        "keys": ["age", "region"],
        "population": 5000.0,
        "model": "single",
        "top": 40.0,
        "carry": "district",
        "swap_seed": 1.0,
    }
    treat = {"income": "round 100", "phone": "drop"}
    done = half.run("protect", frame, {**options, "treat": treat})
    assert half.released(done) == {
        "names": ["age", "region", "district", "income", "pets"],
        "changed": ["region", "district", "income"],
    }
    regions, districts = (half.column_back(done, name)["values"] for name in ("region", "district"))
    assert districts == [f"district {code}" for code in regions]


def test_the_swaps_of_r_are_secret_unless_a_seed_is_given(half: ModuleType) -> None:
    columns = {"age": [20 + (row * 7) % 23 for row in range(200)], "sex": ["f" if row % 3 else "m" for row in range(200)]}
    frame = half.table(columns, {name: [False] * 200 for name in columns})
    options = {"keys": ["age", "sex"], "population": 3000.0, "model": "single", "top": 2.0}

    def swap_seed(**more: float) -> int | None:
        seed: int | None = half.run("protect", frame, {**options, **more}).assessment.config.protect.swap_seed
        return seed

    drawn = {swap_seed(), swap_seed()}
    assert len(drawn) == 2
    assert None not in drawn
    assert (swap_seed(seed=3.0), swap_seed(swap_seed=4.0)) == (None, 4)


def test_twins_for_r(half: ModuleType) -> None:
    columns = {"age": [20 + (row * 7) % 23 for row in range(200)], "sex": ["f" if row % 3 else "m" for row in range(200)]}
    frame = half.table(columns, {name: [row == 4 for row in range(200)] for name in columns})
    done = half.run("synthesise", frame, {"columns": ["age", "sex"], "keys": None, "files": 2.0, "seed": 1.0, "measure": False})
    back = half.twin_columns(done, 2)
    assert sum(back["sex"]["missing"]) == 1
    assert sorted(back["age"]["values"]) == sorted([0, *(age for row, age in enumerate(columns["age"]) if row != 4)])
    assert half.numbers(done)["records"] == 200


def test_the_versions_agree() -> None:
    version = re.search(r'python_version_of_rarecell <- "(.*)"', (R / "R" / "environment.R").read_text())
    assert version is not None
    assert version[1] == rc.__version__
    assert f"Version: {rc.__version__}" in (R / "DESCRIPTION").read_text()


def test_everything_exported_is_documented() -> None:
    exported = set(re.findall(r"^export\((\w+)\)", (R / "NAMESPACE").read_text(), flags=re.MULTILINE))
    assert exported == {path.stem for path in (R / "man").glob("*.Rd")}
    defined = set(re.findall(r"^(\w+) <- function", "\n".join(p.read_text() for p in (R / "R").glob("*.R")), flags=re.MULTILINE))
    assert exported <= defined


SCRIPT = """
library(rarecell)
people <- data.frame(
  age = as.integer(20 + (0:299 * 7) %% 23),
  job = factor(ifelse(0:299 == 17, "astronaut", paste0("job", (0:299)^2 %% 7))),
  income = 1:300
)
people$sex <- structure(as.numeric(1 + (0:299 %% 3 == 0)), labels = c(f = 1, m = 2), label = "Sex",
                        class = c("haven_labelled", "vctrs_vctr", "double"))
people$job[5] <- NA
found <- assess(people, keys = c("age", "job", "sex"), population = 5000, model = "single")
print(found)
figures <- summary(found)
cat("uniques", figures$sample_uniques, "\\n")
risk <- record_risk(found)
stopifnot(nrow(risk) == 300, risk$record[1] == 1, sum(risk$cell_count == 1) == figures$sample_uniques)
kept <- protect(people, keys = c("age", "job", "sex"), population = 5000, model = "single", top = 5)
new <- protected_data(kept)
stopifnot(identical(new$income, people$income), identical(levels(new$job), levels(people$job)), sum(is.na(new$job)) == 1)
stopifnot(identical(attributes(new$sex), attributes(people$sex)), is.integer(new$age))
stopifnot(identical(sort(new$age), sort(people$age)), !identical(new, people))
banded <- protected_data(protect(people, keys = c("age", "job", "sex"), population = 5000, model = "single", top = 5,
                                 recode = list(age = "10-year bands")))
stopifnot(is.character(banded$age), !anyNA(banded$age), length(unique(banded$age)) < 5)
dated <- people
dated$born <- as.Date("2000-01-01") + dated$age
dated$since <- as.Date("2000-02-03") + 0:299
treated <- protected_data(protect(dated, keys = c("age", "job", "sex"), population = 5000, model = "single", top = 20, seed = 1,
                                  keep = list("sex"), treat = list(income = "drop", since = "date to month")))
stopifnot(identical(names(treated), c("age", "job", "sex", "born", "since")), !identical(treated$born, dated$born))
stopifnot(all(treated$born == as.Date("2000-01-01") + treated$age), identical(treated$since, format(dated$since, "%Y-%m")))
report(kept, file.path(tempdir(), "run"))
stopifnot(file.exists(file.path(tempdir(), "run", "report.html")))
told <- tryCatch(assess(people, keys = c("age", "jobb"), population = 5000), error = conditionMessage)
cat("told", told, "\\n")
hole <- list(c("age", "job"), c("job", "sex"), c("sex", "income"), c("income", "age"))
refused <- tryCatch(assess(people, keys = c("age", "job", "sex", "income"), population = 5000, model = "single", cliques = hole),
                    error = conditionMessage)
cat("refused", refused, "\\n")
explain(found)
twin <- synthesise(people, columns = c("age", "job", "sex"), measure = FALSE, seed = 1)
print(twin)
drawn <- twin_data(twin)
stopifnot(identical(names(drawn), c("age", "job", "sex")), nrow(drawn) == 300, is.integer(drawn$age))
stopifnot(identical(sort(drawn$age), sort(people$age)), sum(is.na(drawn$job)) == 1, identical(levels(drawn$job), levels(people$job)))
stopifnot(identical(attributes(drawn$sex), attributes(people$sex)))
"""


@pytest.fixture(scope="module")
def in_r(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], str]:
    """Run a script where the package is installed, and give what it printed."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is not installed (Debian: r-base-core, r-cran-reticulate)")
    if subprocess.run(["Rscript", "-e", "library(reticulate)"], capture_output=True, check=False).returncode:
        pytest.skip("reticulate is not installed (Debian: r-cran-reticulate)")
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        pytest.skip("this Python has no shared library, which reticulate needs")
    folder = tmp_path_factory.mktemp("r")
    library = folder / "library"
    library.mkdir()
    variables = {
        **os.environ,
        "RETICULATE_PYTHON": sys.executable,
        "PYTHONPATH": str(Path(rc.__file__).parents[1]),
        "R_LIBS_USER": str(library),
    }
    # Older ones import a module that Python 3.12 no longer has.
    trial = ["Rscript", "-e", "reticulate::py_run_string('1')"]
    if subprocess.run(trial, env=variables, capture_output=True, check=False).returncode:
        pytest.skip("this reticulate cannot run this Python")
    install = ["R", "CMD", "INSTALL", "--no-test-load", f"--library={library}", str(R)]
    subprocess.run(install, check=True, env=variables, capture_output=True)

    def run(script: str) -> str:
        (folder / "try.R").write_text(script, encoding="utf-8")
        words = ["Rscript", str(folder / "try.R")]
        done = subprocess.run(words, env=variables, capture_output=True, text=True, check=False, cwd=folder, timeout=600)
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stdout
        return done.stdout

    return run


@pytest.mark.slow
def test_the_package_works_in_r(in_r: Callable[[str], str]) -> None:
    printed = in_r(SCRIPT)
    assert "The question." in printed
    assert re.search(r"uniques \d+", printed)
    # Any error of the package, by its message alone.
    alone = r"(?!rarecell\.)(?![A-Z]\w+: )"
    assert re.search(rf"^told {alone}.*There is no key 'jobb'\. Did you mean 'job'\?", printed, flags=re.MULTILINE)
    assert re.search(rf"^refused {alone}\S", printed, flags=re.MULTILINE)


@pytest.mark.slow
def test_the_vignette_runs_and_agrees_with_what_sdcmicro_prints(in_r: Callable[[str], str]) -> None:
    if subprocess.run(["Rscript", "-e", "library(knitr)"], capture_output=True, check=False).returncode:
        pytest.skip("knitr is not installed (Debian: r-cran-knitr)")
    vignette = R / "vignettes" / "coming-from-sdcMicro.Rmd"
    # A chunk that fails stops the script.
    text = in_r(
        f"library(knitr); opts_chunk$set(error = FALSE)\nknit({str(vignette)!r}, 'out.md', quiet = TRUE)\n"
        "cat(readLines('out.md'), sep = '\\n')"
    )
    # indivRisk(freqCalc(francdat, ...))$rk in the manual of sdcMicro, rounded as R rounds it.
    for risk in ("0.01714426", "0.02204233", "0.17707583", "0.01165448", "0.29706308", "0.40235948"):
        assert risk in text
    assert re.search(r"About 1[78]\d records could be recognised", text)
    assert "[1] TRUE" in text


SDC_MICRO = """
library(rarecell)
# An object with the slots of sdcMicro's class, where sdcMicro itself is not installed.
setClassUnion("anything", c("data.frame", "numeric", "character", "list", "NULL"))
slots <- c("origData", "keyVars", "pramVars", "numVars", "weightVar", "hhId", "strataVar", "sensibleVar", "manipKeyVars",
           "manipPramVars", "manipNumVars", "manipGhostVars", "manipStrataVar", "deletedVars", "set")
setClass("sdcMicroObj", representation(origData = "anything", keyVars = "anything", pramVars = "anything", numVars = "anything",
  weightVar = "anything", hhId = "anything", strataVar = "anything", sensibleVar = "anything", manipKeyVars = "anything",
  manipPramVars = "anything", manipNumVars = "anything", manipGhostVars = "anything", manipStrataVar = "anything",
  deletedVars = "anything", set = "anything", prev = "ANY"), prototype = list(prev = NULL))
people <- data.frame(name = paste0("p", 1:300), age = 20 + (0:299 * 7) %% 41, job = paste0("job", (0:299)^2 %% 7), w = 10)
sdc <- new("sdcMicroObj", origData = people, keyVars = c(2, 3), weightVar = 4, manipKeyVars = people[c("age", "job")], deletedVars = "name",
           set = list("origData", "keyVars", "weightVar", "manipKeyVars", "deletedVars"))
changed <- people[c("age", "job")]
changed$age <- paste0(10 * (changed$age %/% 10), "-", 10 * (changed$age %/% 10) + 9)
changed$job[1:5] <- NA
later <- new("sdcMicroObj", manipKeyVars = changed, set = list("manipKeyVars"), prev = sdc)
found <- from_sdcMicro(later)
print(found)
stopifnot(identical(found$keys, c("age", "job")), identical(found$weight, "w"), is.null(found$household))
stopifnot(identical(found$original, people), !"name" %in% names(found$released))
stopifnot(found$done$blanked == c(0, 5), found$done$values_after[1] == 5, found$done$changed[1] == 300)
links <- attack(later)
print(links)
stopifnot("exact" %in% links$intruder, all(links$after[links$intruder == "exact"] <= links$before[links$intruder == "exact"] + 1e-6))
again <- attack(found$released, original = people, keys = c("age", "job"), population = 3000)
stopifnot(nrow(again) >= 2)
told <- tryCatch(from_sdcMicro(people), error = conditionMessage)
cat("told", told, "\\n")
"""


@pytest.mark.slow
def test_an_object_of_sdcmicro_is_read(in_r: Callable[[str], str]) -> None:
    printed = in_r(SDC_MICRO)
    assert "Keys: age, job" in printed
    assert "told This is not an object" in printed
