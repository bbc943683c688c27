"""What did the user ask for, in a form that can be saved, read and rerun?

A :class:`RunConfig` holds every choice of a run and nothing else; ``run.toml`` is its text. Defaults are those of the
command line, so a file with an input, keys and a population is complete.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rarecell import choices
from rarecell.data.names import all_keys, check_scenarios, nested_areas, scenario_keys
from rarecell.engine.places import read_small_text, without_password
from rarecell.errors import BadInput, UnknownChoice, nearest_names
from rarecell.machine.memory import MemoryLimit
from rarecell.machine.numbers import LARGEST_COUNT, check_numbers, check_range
from rarecell.swap.formal.wish import FormalWish

if TYPE_CHECKING:
    from rarecell.edges import Json, ReadJson

CHOICES: dict[str, tuple[str, ...]] = {
    "missing": choices.MISSING,
    "search": choices.SEARCHES,
    "model": choices.MODELS,
    "resolution": choices.RESOLUTIONS,
    "form": choices.FORMS,
    "households_known": choices.YES_NO,
}
"""Options that take one word from a short list."""


_TARGET = ("max_population_uniques", "max_correct_links", "max_record_risk")


@dataclass(frozen=True)
class ProtectConfig:
    """Which records to protect, and what must not change. Records are chosen in one way, or a target is set.

    Attributes
    ----------
    records, risk_above, top, cell_probability_below : which records to protect
    max_population_uniques, max_correct_links, max_record_risk : or a target for the file, against the nearest intruder
    suppress_rest : blank the fewest key values of records that swaps leave above the highest risk asked for
    keep : further marginals that must not change, as lists of columns
    never_swap : keys that stay with their record
    within : columns on which two records must agree to be swapped
    rules : combinations that no swap may create, such as ``{age = "<15", marital = "0"}``
    untouched : records that no swap may touch, described in the same way
    distances : ``"ordinal"``, ``"numeric"`` or ``"nominal"`` for a key, instead of what its levels suggest
    weights : how much a change of each key counts (1 unless given)
    households : swap whole households
    decoys : further records to swap, drawn at random, as a share of those to protect
    swap_seed : seed for choosing partners; unless given, a secret number when a release is written
    swap_rate : share of records, or of households, that change places between areas: those at risk first, then others at random
    similar : sets of columns on which records that change places must agree, tried in this order
    carry : columns that travel with the swapped keys
    released : folder of an earlier protection of the same file, which an intruder may also hold
    weight_classes : with survey weights, swap within this many classes of similar weight; 0 for any weight
    formal : instead of all this, a formal release with a stated ε: ``epsilon`` or ``rate``, and optionally ``root`` and ``rare``
    """

    records: tuple[int, ...] | None = None
    risk_above: float | None = None
    top: int | None = None
    cell_probability_below: float | None = None
    max_population_uniques: float | None = None
    max_correct_links: float | None = None
    max_record_risk: float | None = None
    suppress_rest: bool = False
    keep: tuple[tuple[str, ...], ...] = ()
    never_swap: tuple[str, ...] = ()
    within: tuple[str, ...] = ()
    rules: tuple[Mapping[str, Any], ...] = ()
    untouched: tuple[Mapping[str, Any], ...] = ()
    distances: Mapping[str, str] = field(default_factory=dict)
    weights: Mapping[str, float] = field(default_factory=dict)
    households: bool = False
    decoys: float = 0.0
    swap_seed: int | None = None
    swap_rate: float | None = None
    similar: tuple[tuple[str, ...], ...] = ()
    carry: tuple[str, ...] = ()
    weight_classes: int = 10
    released: str | None = None
    formal: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for part in fields(self):
            check_numbers(getattr(self, part.name), f"'{part.name}'")
        for name in ("risk_above", "max_record_risk", "cell_probability_below", "swap_rate"):
            check_range(getattr(self, name), f"'{name}'", 0, 1)
        for name in ("max_population_uniques", "max_correct_links", "weight_classes", "swap_seed"):
            check_range(getattr(self, name), f"'{name}'", 0)
        check_range(self.top, "'top'", 1)
        check_range(self.decoys, "'decoys'", 0, 10)
        if self.formal:
            FormalWish.of(self.formal)
        ways = self._ways()
        if self.swap_rate is not None and set(ways) - {"--risk-above"}:
            raise BadInput("--swap-rate is given alone, or with --risk-above, the risk above which records must change places.")
        for name in ("rules", "distances", "weights", "decoys") if self.swap_rate is not None else ():
            if getattr(self, name):
                raise BadInput(
                    f"'{name}' has no effect where records change places (--swap-rate): only areas are exchanged. Leave it out."
                )
        if self.swap_rate is None and self.similar:
            raise BadInput("--similar says who may change places with whom; give --swap-rate as well.")
        if len(ways) > 1:
            raise BadInput(
                f"Records to protect were chosen in {len(ways)} ways: by {' and by '.join(ways)}. Choose one, because they name different records."
            )

    @property
    def chooses_records(self) -> bool:
        return bool(self.formal or self.swap_rate is not None or self._ways())

    @property
    def has_target(self) -> bool:
        """Whether records are chosen by a target for the file."""
        return any(getattr(self, name) is not None for name in _TARGET)

    def _ways(self) -> list[str]:
        """How records are chosen, in the words of the command line; the parts of a target count as one way."""
        single = ("records", "risk_above", "top", "cell_probability_below")
        ways = [f"--{name.replace('_', '-')}" for name in single if getattr(self, name) is not None]
        named = [f"--{name.replace('_', '-')}" for name in _TARGET if getattr(self, name) is not None]
        return [*ways, " with ".join(named)] if named else ways


@dataclass(frozen=True)
class RunConfig:
    """Every choice of a run.

    Attributes
    ----------
    input : path of the microdata file, or path or address of a database together with ``sql``
    keys : columns an intruder could know
    population : number of units the sample was drawn from; None takes it from the weights or the strata
    populations : with ``strata``, the number of units of each stratum
    weight, household, sensitive, id, strata : columns with other roles; several that identify a household together are separated
        by commas
    household_order : columns that give the order of the members of a household; found from the data unless given
    households_known : whether an intruder knows who lives with whom; with ``"no"`` only persons are judged
    geography : column of the area, or nested areas from coarse to fine, as in ``"region>district"``; risk is reported by level
    register : the population, in any file format the program reads: gives exact numbers next to the estimates
    analysis : what users want to learn from the file, run on the protected file as well, such as
        ``{"wage": {"regression": "income ~ age + sex"}}``; also ``means`` and ``table``
    scenario : further intruders, each with the keys it knows, such as ``{"neighbour": {"keys": ["age", "sex"]}}``
    missing : what a missing key value means: a level of its own, ``"matches-anything"``, a record to drop, or an error
    coding : how values of a key become levels: ``edges``, ``width``, ``quantiles``, ``top``, ``bottom``, ``levels``, ``ordered``
    recode : how each key is to be released, in words: ``"5-year bands, top 85"``, ``"edges 15 25 45"``, ``"5 groups"``,
        ``"level 2"``, ``"merge 01+02 as north"``; combined with what ``coding`` says about the key
    hierarchies : a CSV file of nested groups for each key
    sql : a query to read instead of a file
    encoding : encoding of a text file that is not UTF-8, such as ``"windows-1252"``
    sheet : sheet of a workbook; the first unless given
    decimal : decimal mark in a text file, ``"."`` or ``","``; inferred from the delimiter unless given
    spark_table : a Spark table, or a path that Spark reads, instead of a file
    criterion : how the best single model is chosen: ``"aic"``, ``"bic"`` for fewer edges, ``"bayes"`` for a marginal likelihood,
        a penalty for each degree of freedom, or ``"skinner-shlomo"`` for the penalty at which the test of Skinner and Shlomo
        finds the least over- or understatement of risk
    search, max_clique, restarts : how that model is searched for
    time_limit : seconds after which a search that is not exact stops with the best model so far; not for ``search = "exact"``
    model : where the risk comes from: ``"average"`` (the default, most accurate), ``"single"`` (the best decomposable model),
        ``"bayes"`` (decomposable models drawn from their posterior), ``"hierarchical"`` (the best model found around it, chordal
        or not), ``"regularised"`` (all pairs of keys with priors on interactions), ``"stacked"`` (a mixture weighted by held-out
        likelihood), ``"independence"`` or ``"saturated"``
    cliques : a model given by the user, instead of a search
    resolution : offer keys at several resolutions, or only in full detail
    zeros : structural zeros: ``"swaps"`` detects them and keeps swaps from creating one, ``"detect"`` also leaves them out of
        the degrees of freedom, ``"off"`` does neither; anything else is a JSON file with the list, as a run writes it
    form : distribution of the population count of a cell
    threshold : risk from which a record is listed as risky
    memory : memory the run may use, such as ``"4GB"``; half of the machine's memory unless given
    by : who runs it, for the first page of the report
    seed : seed of every random choice
    """

    input: str
    keys: tuple[str, ...]
    population: int | None = None
    weight: str | None = None
    household: str | None = None
    household_order: tuple[str, ...] = ()
    households_known: str = "yes"
    geography: str | None = None
    strata: str | None = None
    populations: Mapping[str, int] = field(default_factory=dict)
    sensitive: tuple[str, ...] = ()
    id: str | None = None
    register: str | None = None
    scenario: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    analysis: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    missing: str = "level"
    coding: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    recode: Mapping[str, str] = field(default_factory=dict)
    hierarchies: Mapping[str, str] = field(default_factory=dict)
    sql: str | None = None
    encoding: str | None = None
    sheet: str | None = None
    decimal: str | None = None
    spark_table: str | None = None
    criterion: str = "aic"
    search: str = "auto"
    max_clique: int | None = None
    restarts: int = 100
    time_limit: float = 45.0
    model: str = "average"
    cliques: tuple[tuple[str, ...], ...] = ()
    resolution: str = "multi"
    zeros: str = "swaps"
    form: str = "multinomial"
    threshold: float = 0.2
    memory: str | None = None
    seed: int = 0
    by: str | None = None
    protect: ProtectConfig | None = None

    def __post_init__(self) -> None:
        for part in fields(self):
            check_numbers(getattr(self, part.name), f"'{part.name}'")
        check_range(self.seed, "The seed", 0)
        for population in (self.population, *self.populations.values()):
            check_range(population, "The population", 1, LARGEST_COUNT)
        for option, words in CHOICES.items():
            if getattr(self, option) not in words:
                raise UnknownChoice.of(f"The option '{option}'", getattr(self, option), words)
        if not self.keys:
            raise BadInput("No key was named. Name the columns an intruder could know, for example --keys age,sex,region.")
        if (self.strata is None) != (not self.populations):
            raise BadInput("Strata need both the column with the stratum of each record and the population of each stratum.")
        if self.strata is not None and self.weight is not None:
            raise BadInput("Strata and survey weights were both given; the sizes of strata imply weights, so give one of them.")
        if self.populations and self.population not in (None, in_all := sum(self.populations.values())):
            told = f"The population was given as {self.population:,}, but the strata add up to {in_all:,}."
            raise BadInput(f"{told} Correct the size of a stratum, or leave out the population.")
        if self.population is None and self.weight is None and self.strata is None:
            raise BadInput(
                "The size of the population is not known. Give the number of units the sample was drawn from with "
                "--population, or the column of survey weights with --weight."
            )
        if not 0 <= self.threshold <= 1:
            raise BadInput(f"The threshold was given as {self.threshold}; a risk lies between 0 and 1.")
        if self.spark_table is not None and (self.sql is not None or self.input):
            raise BadInput("Both a Spark table and a file or query were named as the data; name one of them.")
        if self.geography is not None:
            nested_areas(self.geography)
        check_scenarios(self.scenarios, self.keys)
        if self.protect is not None and self.protect.swap_rate is not None:
            self._check_places(self.protect)
        MemoryLimit.of(self.memory)
        if not self.time_limit > 0:
            raise BadInput(f"The time limit was given as {self.time_limit}; it must be a number of seconds above 0.")
        if self.restarts < 1:
            raise BadInput(f"The number of restarts was given as {self.restarts}; it must be at least 1.")

    def _check_places(self, protect: ProtectConfig) -> None:
        if self.geography is None:
            raise BadInput("--swap-rate lets records change places between areas; name the column of the areas with --geography.")
        fixed = [area for area in nested_areas(self.geography) if area in protect.never_swap]
        if fixed:
            raise BadInput(
                f"'{fixed[0]}' is never to be swapped, but areas are what --swap-rate exchanges. Leave one of them out."
            )

    @property
    def scenarios(self) -> dict[str, tuple[str, ...]]:
        """The keys of each scenario."""
        return scenario_keys(self.scenario)

    # ------------------------------------------------------------------ TOML

    def to_toml(self) -> str:
        """The choices that differ from the defaults, and those every reader wants to see; passwords are left out."""
        import tomlkit

        document = tomlkit.document()
        document.add(tomlkit.comment("Rerun with: rarecell assess --config run.toml --out DIR   (or protect)"))
        always = {"input", "keys", "population", "criterion", "search", "model", "resolution", "seed"}
        for part in fields(self):
            value = without_password(self.input) if part.name == "input" else getattr(self, part.name)
            if part.name == "protect" or value is None or (part.name not in always and value == _default(part)):
                continue
            document[part.name] = _plain(value)
        if self.protect is not None:
            table = tomlkit.table()
            for part in fields(self.protect):
                value = getattr(self.protect, part.name)
                if value is not None and value != _default(part):
                    table[part.name] = _plain(value)
            document["protect"] = table
        return tomlkit.dumps(document)

    @classmethod
    def from_toml(cls, text: str, *, source: str = "the configuration") -> RunConfig:
        """Read what :meth:`to_toml` wrote or a person typed; each unknown name is reported with its nearest match."""
        try:
            given = tomllib.loads(text)
        except (ValueError, RecursionError) as problem:
            raise BadInput(f"{source} is not valid TOML: {problem}.") from None
        return cls.from_mapping(given, source=source)

    @classmethod
    def from_mapping(cls, given: ReadJson, *, source: str = "the configuration") -> RunConfig:
        """Build from plain values, checking every name and type."""
        _check_names(given, cls, source)
        values: Json = {name: _typed(cls, name, value, source) for name, value in given.items() if name != "protect"}
        if "keys" not in values and "scenario" in values:
            values["keys"] = all_keys(scenario_keys(values["scenario"]))
        for needed in ("input", "keys"):
            if needed not in values:
                raise BadInput(f"{source} lacks '{needed}'; it needs at least input and keys.")
        protect = given.get("protect")
        if protect is not None:
            if not isinstance(protect, Mapping):
                raise BadInput(f"'protect' in {source} must be a table of options.")
            _check_names(protect, ProtectConfig, f"[protect] in {source}")
            values["protect"] = ProtectConfig(**{n: _typed(ProtectConfig, n, v, source) for n, v in protect.items()})
        return cls(**values)

    @classmethod
    def read(cls, path: str | Path) -> RunConfig:
        """Read a ``run.toml``; a relative input path is resolved against the working directory."""
        try:
            text = read_small_text(Path(path))
        except (OSError, UnicodeDecodeError) as problem:
            raise BadInput(f"The configuration {path} could not be read: {problem}.") from None
        return cls.from_toml(text, source=str(path))


def _default(part: Any) -> Any:
    if part.default is not MISSING:
        return part.default
    return part.default_factory() if part.default_factory is not MISSING else None


def _plain(value: object) -> Any:
    """Turn tuples into lists and mappings into dictionaries, as TOML requires."""
    if isinstance(value, Mapping):
        return {str(name): _plain(item) for name, item in value.items()}
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    return value


def _check_names(given: ReadJson, owner: type, source: str) -> None:
    known = [part.name for part in fields(owner)]
    unknown = [name for name in given if name not in known]
    if unknown:
        hints = []
        for name in unknown:
            near = nearest_names(name, known, limit=1)
            hints.append(f"'{name}'" + (f" (did you mean '{near[0]}'?)" if near else ""))
        raise BadInput(f"{source} has unknown options: {', '.join(hints)}. The known ones are: {', '.join(known)}.")


_KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    "str": ((str,), "text"),
    "int": ((int,), "a whole number"),
    "float": ((int, float), "a number"),
    "bool": ((bool,), "true or false"),
    "Mapping": ((Mapping,), "a table"),
}


def _typed(owner: type, name: str, value: object, source: str) -> Any:
    """Check a value against the annotation of its field, and turn lists into tuples."""
    annotation = str(next(part.type for part in fields(owner) if part.name == name))
    if value is None and "None" in annotation:
        return None
    if annotation.startswith("tuple"):
        return _typed_sequence(annotation, name, value, source)
    kinds, expected = _KINDS[annotation.split("[")[0].split(" ")[0]]
    if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
        raise BadInput(f"'{name}' in {source} was given as {value!r}; it must be {expected}.")
    if isinstance(value, Mapping):
        inner = annotation.removeprefix("Mapping[str, ").split("[")[0].rstrip("]")
        kinds, expected = _KINDS.get(inner, ((object,), ""))
        for member, held in value.items():
            if not isinstance(held, kinds) or (isinstance(held, bool) and inner in ("int", "float")):
                raise BadInput(f"'{member}' of '{name}' in {source} was given as {held!r}; it must be {expected}.")
    return value


def _typed_sequence(annotation: str, name: str, value: object, source: str) -> Any:
    is_nested = annotation.startswith("tuple[tuple")
    inner: type = int if "int" in annotation else Mapping if "Mapping" in annotation else str
    problem = BadInput(
        f"'{name}' in {source} was given as {value!r}; it must be a list" + (" of lists" if is_nested else "") + "."
    )
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise problem
    if is_nested:
        if not all(isinstance(item, Sequence) and not isinstance(item, str) for item in value):
            raise problem
        return tuple(tuple(str(member) for member in item) for item in value)
    if not all(isinstance(item, inner) and not isinstance(item, bool) for item in value):
        raise problem
    return tuple(value)
