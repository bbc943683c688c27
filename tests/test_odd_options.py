"""Numbers that are none, sizes no machine has, names no file system takes: one paragraph each, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from rarecell.cli.commands import main
from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput, RarecellError
from rarecell.run.config import ProtectConfig, RunConfig
from rarecell.run.options import Option
from rarecell.run.options import options_of as options_of_config

ADDRESS, SURVEY = "the address", "the survey"


@pytest.fixture
def survey(tmp_path: Path) -> Path:
    path = tmp_path / "survey.csv"
    path.write_text("age,sex\n" + "".join(f"{20 + i % 9},{i % 2}\n" for i in range(60)))
    return path


def options_of(command: click.Command, *names: str) -> Iterator[tuple[str, click.Parameter]]:
    if isinstance(command, click.Group):
        for name, inner in command.commands.items():
            yield from options_of(inner, *names, name)
        return
    yield from ((" ".join(names), option) for option in command.params)


FLOATS = [(name, option) for name, option in options_of(main) if isinstance(option.type, click.types.FloatParamType)]


def test_there_are_options_that_take_numbers() -> None:
    assert len(FLOATS) >= 8


@pytest.mark.parametrize("text", ["nan", "inf", "-inf", "NaN", "1e999", "infinity"])
@pytest.mark.parametrize(("command", "option"), FLOATS, ids=lambda given: getattr(given, "name", given))
def test_no_option_takes_a_number_that_is_not_finite(command: str, option: click.Parameter, text: str) -> None:
    with pytest.raises(click.BadParameter):
        option.type.convert(text, option, None)


@pytest.mark.parametrize(
    "options",
    [
        ["--fail-above", "nan"],
        ["--seed", "-1"],
        ["--seed", "9" * 400],
        ["--population", "1" + "0" * 400],
        ["--population", "0"],
        ["--memory", "9" * 400 + "GB"],
        ["--memory", "99999999999999999999GB"],
        ["--out", "x" * 300],
        ["--out", "x/" * 3000],
        ["--threshold", "nan"],
        ["--time-limit", "nan"],
    ],
)
@pytest.mark.parametrize("command", ["assess", "protect"])
def test_odd_options_end_in_one_paragraph(survey: Path, options: list[str], command: str) -> None:
    arguments = [command, str(survey), "--keys", "age,sex", "--quiet"]
    arguments += ["--population", "1000"] if "--population" not in options else []
    arguments += ["--top", "3"] if command == "protect" else []
    done = CliRunner().invoke(main, [*arguments, *options])
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit)
    assert "Traceback" not in done.output


@pytest.mark.parametrize("records", ["9" * 30, "-1", "5000", "1e3"])
def test_records_that_no_file_has_are_refused(survey: Path, records: str) -> None:
    done = CliRunner().invoke(
        main,
        [
            "protect",
            str(survey),
            "--keys",
            "age,sex",
            "--population",
            "1000",
            f"--records={records}",
            "--quiet",
            "--model",
            "single",
        ],
    )
    assert done.exit_code in (1, 2), done.output
    assert isinstance(done.exception, SystemExit)


def test_zeros_nested_without_end_are_refused(survey: Path, tmp_path: Path) -> None:
    zeros = tmp_path / "zeros.json"
    zeros.write_text('{"zeros":' + "[" * 50_000 + "]" * 50_000 + "}")
    done = CliRunner().invoke(
        main, ["assess", str(survey), "--keys", "age,sex", "--population", "1000", "--zeros", str(zeros), "--quiet"]
    )
    assert done.exit_code == 1, done.output
    assert "could not be read" in done.output


def test_zeros_from_a_device_are_refused_in_whole_sentences(survey: Path) -> None:
    done = CliRunner().invoke(
        main, ["assess", str(survey), "--keys", "age,sex", "--population", "1000", "--zeros", "/dev/null", "--quiet"]
    )
    assert done.exit_code == 1, done.output
    assert ".. " not in done.output
    assert "name that. Give 'swaps', 'detect', 'off'" in done.output


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="needs a file that can be opened and not read")
@pytest.mark.parametrize("option", [["--codebook", "/proc/self/mem"], ["--hierarchy", "age=/proc/self/mem"]])
def test_a_disk_that_fails_while_it_is_read_is_told_with_the_name_of_the_file(survey: Path, option: list[str]) -> None:
    command = ["describe"] if "--codebook" in option else ["assess", "--keys", "age,sex", "--population", "1000"]
    done = CliRunner().invoke(main, [*command, str(survey), *option])
    assert done.exit_code == 1, done.output
    assert "/proc/self/mem cannot be read: Input/output error" in done.output


@pytest.mark.parametrize("words", [["assess", "a\ud800"], ["describe", "a.csv", "--codebook", "\udfff\ud800"]])
def test_half_a_character_is_refused(words: list[str]) -> None:
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 2, done.output
    assert "no system can take" in done.output


@pytest.mark.parametrize(
    "address", ["postgresql://me:hunter2@db/census", "postgres:password=hunter2", "http://me:hunter2@example.org/people.csv"]
)
@pytest.mark.parametrize("arguments", [["describe", ADDRESS], ["describe", SURVEY, "--codebook", ADDRESS]])
def test_an_address_in_place_of_a_file_is_refused_without_its_password(survey: Path, address: str, arguments: list[str]) -> None:
    done = CliRunner().invoke(main, [{ADDRESS: address, SURVEY: str(survey)}.get(word, word) for word in arguments])
    assert done.exit_code == 1, done.output
    assert "hunter2" not in done.output
    assert "name that file by its path" in done.output


@pytest.mark.parametrize("name", ["s3:a.csv", "http:a.csv", "C:a.csv", "postgres:a.csv", "2026:a.csv", "mailto:a", "a.csv:"])
@pytest.mark.parametrize("arguments", [["describe", ADDRESS], ["describe", SURVEY, "--codebook", ADDRESS]])
def test_a_missing_file_whose_name_has_a_colon_is_a_missing_file(survey: Path, name: str, arguments: list[str]) -> None:
    done = CliRunner().invoke(main, [{ADDRESS: name, SURVEY: str(survey)}.get(word, word) for word in arguments])
    assert done.exit_code == 1, done.output
    assert f"There is no file {name}" in done.output


def test_the_address_of_a_file_is_told_to_be_one(survey: Path) -> None:
    done = CliRunner().invoke(main, ["describe", f"file://{survey}"])
    assert done.exit_code == 1, done.output
    assert "Name the file by its path, without file://" in done.output


ODD = st.one_of(
    st.floats(), st.integers(), st.just(10**400), st.just(-(10**400)), st.text(max_size=5), st.none(), st.booleans(), st.lists(st.floats(), max_size=2)
)  # fmt: skip


@settings(max_examples=300, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(
            ["population", "seed", "threshold", "time_limit", "restarts", "max_clique", "memory", "populations", "coding"]
        ),
        ODD,
    ),
    st.dictionaries(
        st.sampled_from(["top", "risk_above", "records", "max_record_risk", "weights", "cell_probability_below"]), ODD
    ),
)
def test_any_configuration_is_taken_or_refused_in_words(given_values: dict[str, Any], protect: dict[str, Any]) -> None:
    try:
        config = RunConfig.from_mapping({"input": "a.csv", "keys": ["a"], "population": 10, **given_values, "protect": protect})
    except RarecellError:
        return
    assert config.threshold == config.threshold
    assert config.seed >= 0


@pytest.mark.parametrize("command", ["assess", "protect", "plan"])
def test_the_folder_of_a_run_in_place_of_a_file_is_told_with_the_command_that_was_meant(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "my run"
    folder.mkdir()
    (folder / "run.toml").write_text("")
    done = CliRunner().invoke(main, [command, str(folder)])
    assert done.exit_code == 2
    assert f"rarecell {command} --config '{folder / 'run.toml'}'" in " ".join(done.output.split())


def test_numbers_inside_tables_and_lists_are_looked_at() -> None:
    with pytest.raises(BadInput, match="weights"):
        ProtectConfig(top=1, weights={"age": float("nan")})
    with pytest.raises(BadInput, match="age"):
        RunConfig(input="a.csv", keys=("age",), population=10, coding={"age": {"edges": [1, float("inf")]}})


def test_decimal_numbers_that_are_the_same_as_floats_stay_apart(tmp_path: Path) -> None:
    values = [Decimal("0.1000000000000000055"), Decimal("0.1000000000000000056"), Decimal("0.5")] * 4
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"share": pa.array(values, pa.decimal128(30, 19)), "sex": list(range(2)) * 6}), path)
    data = Microdata(path, keys=["share", "sex"])
    assert data.table().categories[0].n_levels == 3
    assert any("differ only beyond" in line for line in data.summary_lines())


def test_a_read_only_installation_without_a_home_still_runs(tmp_path: Path) -> None:
    """Compiled code goes to a private folder that is gone afterwards."""
    script = (
        "import os, sys\nfrom pathlib import Path\nfrom rarecell.machine import compiled_code\n"
        "compiled_code._can_write = lambda place: False\n"
        "import rarecell._kernels, numba\n"
        "place = Path(os.environ['NUMBA_CACHE_DIR'])\nassert place.is_dir() and numba.config.CACHE_DIR == str(place)\n"
        "from rarecell._kernels.text import copy_text\nimport numpy as np\n"
        "copy_text(np.zeros(1, np.uint8), np.zeros((1, 2), np.int64), np.zeros(2, np.int32), np.zeros(1, np.uint8))\n"
        "assert any(place.rglob('*.nbi'))\nprint(place)"
    )
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    done = subprocess.run(
        [sys.executable, "-c", script], env={**environment, "TMPDIR": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert not Path(done.stdout.strip()).exists()


def test_a_command_leaves_without_a_word_of_its_engines(survey: Path) -> None:
    """DuckDB complains of everything that is still alive when the interpreter ends."""
    command = [sys.executable, "-m", "rarecell", "assess", str(survey), "--keys", "agee", "--population", "100"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1
    assert len(done.stderr.splitlines()) == 1, done.stderr


ODD_TEXTS = ["a\0b", "a\nb", "age\r,sex", "a\udcff", "x" * 5000, ",", "", "punycode", "idna", "0", "-1"]


TEXTS = [
    (name, option)
    for name, option in options_of(main)
    if name in ("assess", "protect") and isinstance(option, click.Option) and isinstance(option.type, click.types.StringParamType)
]


def test_there_are_options_that_take_texts() -> None:
    assert len(TEXTS) >= 30


@pytest.mark.parametrize(("command", "option"), TEXTS, ids=lambda given: getattr(given, "name", given))
def test_odd_texts_end_in_one_paragraph(survey: Path, command: str, option: click.Option) -> None:
    """Line ends inside names, bytes that are no text, names that are too long, lists of nothing; ``--dry-run`` reads them all."""
    given = ["--keys", "age,sex"] if "keys" not in (option.name or "") else []
    given += ["--population", "1000"] if option.name != "population" else []
    for text in ODD_TEXTS:
        words = [command, str(survey), *given, option.opts[-1], text, "--quiet", "--dry-run"]
        done = CliRunner().invoke(main, words)
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)


@pytest.mark.parametrize("option", [*options_of_config(RunConfig), *options_of_config(ProtectConfig)], ids=lambda one: one.name)
def test_a_null_byte_in_a_configuration_is_refused(survey: Path, option: Option) -> None:
    """A command line cannot hold one; a run.toml, a call and a form can."""
    for value in ("a\0b", ["a\0b"], [["a\0b"]], {"a\0b": "1"}, {"age": "a\0b"}, [{"age": "a\0b"}]):
        given: dict[str, Any] = {"input": str(survey), "keys": ["age", "sex"], "population": 1000}
        protect: dict[str, Any] = {"top": 3} if option.name != "top" else {}
        (protect if option in options_of_config(ProtectConfig) else given)[option.name] = value
        with pytest.raises(RarecellError):
            RunConfig.from_mapping({**given, "protect": protect})


@pytest.mark.parametrize("place", ["n" * 300, "n" * 5000, "x\udc80y"], ids=["long", "longer", "no text"])
@pytest.mark.parametrize("option", ["--released", "--register", "--zeros", "--profile", "--hierarchy"])
def test_odd_places_end_in_one_paragraph_in_a_whole_run_too(survey: Path, tmp_path: Path, option: str, place: str) -> None:
    value = f"age={place}" if option == "--hierarchy" else place
    words = ["protect", str(survey), "--keys", "age,sex", "--population", "1000", "--top", "3", "--model", "single", "--quiet"]
    done = CliRunner().invoke(main, [*words, option, value, "--out", str(tmp_path / "run")])
    assert done.exit_code == 1
    assert isinstance(done.exception, SystemExit), done.exception
    assert not (tmp_path / "run" / "run.json").exists()


@pytest.mark.skipif(sys.platform == "win32", reason="a folder in which a program works cannot be removed")
@pytest.mark.parametrize(
    "command", [["describe", "survey.csv"], ["assess", "survey.csv", "--keys", "age,sex", "--population", "1000"]]
)
def test_a_current_folder_that_is_gone_is_told(command: list[str], survey: Path, tmp_path: Path) -> None:
    here = tmp_path / "gone"
    here.mkdir()
    code = "import os, sys; os.rmdir(os.getcwd()); from rarecell.__main__ import main; main()"
    for file in (str(survey), survey.name):
        here.mkdir(exist_ok=True)
        words = [command[0], file, *command[2:]]
        done = subprocess.run([sys.executable, "-c", code, *words], cwd=here, capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr.count("\n")) == (1, 1)
        assert "The folder that you are in is no longer there." in done.stderr
