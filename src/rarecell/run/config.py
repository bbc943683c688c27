"""What did the user ask for, in a form that can be saved, read and rerun?

A :class:`RunConfig` holds every choice of a run and nothing else; ``run.toml`` is its text. Each field declares its option
(:mod:`rarecell.run.options`), from which the command line, the keywords of the library and the app's forms follow. Defaults are
those of the command line, so a file with an input, keys and a population is complete.
"""

from __future__ import annotations

import functools
import inspect
import math
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from rarecell import choices
from rarecell.data.missing_codes import parse_missing_codes
from rarecell.data.names import SamplingStages, all_keys, check_scenarios, nested_areas, scenario_keys
from rarecell.engine.places import read_small_text, without_password
from rarecell.errors import BadInput, RarecellError, UnknownChoice, UnknownColumns
from rarecell.machine.memory import MemoryLimit
from rarecell.outcome.profile import PROFILES, Profile
from rarecell.outcome.words import listed
from rarecell.run.options import (
    ASSESSING,
    LARGEST_COUNT,
    LARGEST_INTEGER,
    PLANNING,
    PROTECTING,
    READING,
    Count,
    Group,
    Intruder,
    Names,
    Number,
    NumberOrNumbers,
    Option,
    Pairs,
    Part,
    Place,
    Rows,
    Sets,
    Shares,
    Switch,
    Text,
    TomlTable,
    TomlTables,
    Word,
    described,
    in_python,
    judged,
    option,
    options_of,
    saved,
    typed,
)

if TYPE_CHECKING:
    from rarecell.edges import Frame, Json, ReadJson


ERRORS_OF_A_REGISTER = (
    "A register and --key-error were both given. Links are counted in the register as it is, with the errors that it has; "
    "leave out one of them."
)


def check_criterion(criterion: str) -> None:
    """Raise unless a criterion is one of the words for it or a penalty."""
    if criterion in choices.CRITERIA:
        return
    try:
        is_penalty = math.isfinite(float(criterion)) and float(criterion) >= 0
    except ValueError:
        is_penalty = False
    if not is_penalty:
        raise UnknownChoice.of("The criterion", criterion, [*choices.CRITERIA], others="a penalty such as 0.7")


def _changed_though_kept(name: str, flag: str) -> str:
    return f"'{name}' is in a table that is to be kept (--keep), but {flag} changes its values. Leave one of them out."


def _read_treatments(words: Mapping[str, str]) -> object:
    """Whether treatments can be read; what reads them loads NumPy, which help does not need."""
    from rarecell.data.treatment_text import parse_treatments

    return parse_treatments(words)


@described
@dataclass(frozen=True)
class FormalConfig:
    """A formal release: which ε, or which share of records to change."""

    epsilon: float | tuple[float, ...] | None = option(
        NumberOrNumbers(), "The ε of the whole release, or one for each edge.", Group.SWAPS, default=None
    )
    rate: float | None = option(Number(high=1.0), "Share of records to change, instead of epsilon.", Group.SWAPS, default=None)
    root: tuple[str, ...] | None = option(
        Names(), "The clique whose values stay with each record; chosen unless given.", Group.SWAPS, default=None
    )
    rare: int = option(
        Count(),
        "Records whose value of the parent clique occurs at most this often are always shuffled.",
        Group.SWAPS,
        default=0,
    )

    def __post_init__(self) -> None:
        judged(self)
        if (self.epsilon is None) == (self.rate is None):
            raise BadInput(
                "A formal release takes either epsilon or rate, for example --formal epsilon=12 or --formal rate=0.05."
            )

    @classmethod
    def of(cls, values: ReadJson) -> FormalConfig:
        """Read plain values, as found in a configuration."""
        return cls(**typed(cls, values, "the table 'formal'"))


PARTICIPANTS = ("participant", "prosecutor")
"""Words for somebody who knows that a person is in the file."""

_SINGLE_WAYS = ("records", "risk_above", "top", "cell_probability_below")
"""Ways to choose records, of which one is given."""

_TARGET = ("max_population_uniques", "max_correct_links", "max_record_risk")

_OF_ATTRIBUTES = ("l_diversity", "t_closeness", "max_guess_gain")
"""Limits on what groups of equal keys give away about sensitive columns."""


@described
@dataclass(frozen=True)
class ProtectConfig:
    """Which records to protect, and what must not change. Records are chosen in one way, or a target is set."""

    records: tuple[int, ...] | None = option(
        Rows(),
        "Records to protect, by number: from 1 on the command line, from 0 in a configuration.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
    )
    risk_above: float | None = option(
        Number(high=1.0, metavar="P"),
        "Protect records with a risk above P.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
        is_main=True,
    )
    top: int | None = option(Count(1, metavar="K"), "Protect the K riskiest records.", Group.RECORDS, on=PROTECTING, default=None)
    cell_probability_below: float | None = option(
        Number(high=1.0, metavar="P"),
        "Protect unique records whose cell has a probability below P.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
    )
    max_population_uniques: float | None = option(
        Number(metavar="T"),
        "Protect until at most T population uniques are expected.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
    )
    max_correct_links: float | None = option(
        Number(metavar="T"),
        "Protect until somebody who links each record to the nearest person is expected to be right at most T times.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
        is_main=True,
    )
    max_record_risk: float | None = option(
        Number(high=1.0, metavar="P"),
        "Protect until no record has a risk above P.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
        is_main=True,
    )
    against: str | None = option(
        Word(
            {
                "nearest": "links each record to the nearest person of a register",
                "participant": "knows that a person is in the file and takes the nearest record",
                "prosecutor": "the same as participant, as ARX calls it",
            },
            "WHO",
        ),
        "Whom --max-correct-links and --max-record-risk are meant against: nearest, or participant (also prosecutor), who knows that a "
        "person is in the file. Where the file is the whole population it is participant unless given.",
        Group.RECORDS,
        on=PROTECTING,
        default=None,
    )
    k: int | None = option(
        Count(2, metavar="K"),
        "Every released combination of key values occurs at least K times: by swaps as far as these help, then by few blanks. May "
        "stand alone or beside another way of choosing records.",
        Group.RECORDS,
        on=PLANNING,
        default=None,
    )
    suppress_rest: bool = option(
        Switch(),
        "After the swaps, blank as few key values as possible in records that are still above the limit.",
        Group.RECORDS,
        on=PROTECTING,
        default=False,
        is_main=True,
    )
    blank: tuple[str, ...] = option(
        Names(),
        "Keys whose values --suppress-rest and --k may blank, those first that may go first; unless given, all but those of --never-swap and of the tables of --keep.",
        Group.RECORDS,
        on=PROTECTING,
        default=(),
    )
    l_diversity: int | None = option(
        Count(2, metavar="L"),
        "Every group of equal released keys has at least L values of each sensitive column: values are exchanged between records alike in the keys that tell most about it, and blanked in groups that still have too few.",
        Group.RECORDS,
        on=PLANNING,
        default=None,
    )
    t_closeness: float | None = option(
        Number(high=1.0, metavar="T"),
        "The values of a sensitive column in each group of equal released keys are at most T away from those of the file: values are "
        "exchanged as for --l-diversity, and blanked in groups that are still further away.",
        Group.RECORDS,
        on=PLANNING,
        default=None,
    )
    max_guess_gain: float | None = option(
        Number(high=1.0, metavar="SHARE"),
        "How many more people, as a share, may have a sensitive value guessed right from their group than from the file as a whole; the column is blanked in the groups that give most away, and in others, so that a blank itself says nothing.",
        Group.RECORDS,
        on=PLANNING,
        default=None,
    )
    keep: tuple[tuple[str, ...], ...] = option(
        Sets(), "Further tables that must not change.", Group.KEPT, on=PLANNING, default=(), is_main=True
    )
    never_swap: tuple[str, ...] = option(Names(), "Keys that must stay with their record.", Group.KEPT, on=PLANNING, default=())
    leave_out: tuple[str, ...] = option(
        Names(), "Keys that are left out of the released file.", Group.FILE, on=("protect",), default=()
    )
    within: tuple[str, ...] = option(
        Names(), "Swap only between records that agree on these columns.", Group.KEPT, on=PLANNING, default=()
    )
    rules: tuple[Mapping[str, Any], ...] = option(
        TomlTables(),
        'A combination of values that no swap may create, such as age="<15", marital="0".',
        Group.KEPT,
        on=PLANNING,
        flag="--rule",
        default=(),
    )
    untouched: tuple[Mapping[str, Any], ...] = option(
        TomlTables(), "Records that no swap may touch, described in the same way.", Group.KEPT, on=PLANNING, default=()
    )
    distances: Mapping[str, str] = option(
        Pairs(
            Word({"ordinal": "ordered", "numeric": "numbers", "nominal": "unordered"}),
            metavar="KEY=WORD",
            example="age=ordinal",
        ),
        "How far apart values of a key are: ordinal, numeric or nominal, instead of what its levels suggest.",
        Group.SWAPS,
        on=PROTECTING,
        flag="--distance",
        default_factory=dict,
    )
    weights: Mapping[str, float] = option(
        Pairs(Number(), metavar="KEY=X", example="age=2"),
        "How much a change of a key counts (1 unless given).",
        Group.SWAPS,
        on=PROTECTING,
        flag="--key-weight",
        default_factory=dict,
    )
    households: bool = option(
        Switch(), "Swap whole households with others of the same composition.", Group.SWAPS, on=PROTECTING, default=False
    )
    cluster: tuple[str, ...] = option(
        Names(),
        "Columns that group records other than as families, such as an enterprise or a school: keys that are the same within every group "
        "stay so.",
        Group.SWAPS,
        on=PROTECTING,
        default=(),
    )
    unlink: bool = option(
        Switch(),
        "Drop the household number, so that nobody knows who lives with whom; columns that would put households together again stop "
        "the run.",
        Group.SWAPS,
        on=PROTECTING,
        default=False,
    )
    decoys: float = option(
        Number(high=10.0, metavar="SHARE"),
        "Also swap records that are not at risk, as a share of those that are: having moved is then no sign of risk.",
        Group.SWAPS,
        on=PROTECTING,
        default=0.0,
    )
    max_sure_links: float | None = option(
        Number(metavar="T"),
        "Choose other partners, then decoys, until somebody who has this program and a register is surer than 0.8 of at most T links; "
        "without it, 1 % of the links in the original, as far as other partners do.",
        Group.SWAPS,
        on=PROTECTING,
        default=None,
    )
    swap_seed: int | None = option(
        Count(high=LARGEST_INTEGER),
        "Seed for choosing partners; unless it or --seed is given, a secret number when a release is written.",
        Group.SWAPS,
        on=PROTECTING,
        default=None,
    )
    swap_rate: float | None = option(
        Number(high=1.0, metavar="P"),
        "Least share of records (or --households) that change places between areas: all at risk, then others at random.",
        Group.SWAPS,
        on=PROTECTING,
        default=None,
    )
    similar: tuple[tuple[str, ...], ...] = option(
        Sets(),
        'Columns on which records that change places must agree, tried in order: "hhsize,age;hhsize".',
        Group.SWAPS,
        on=PROTECTING,
        default=(),
    )
    carry: tuple[str, ...] = option(
        Names(),
        "Columns that travel with swapped keys: with those that they go with, such as a district with its region, or with every key if "
        "they go with none.",
        Group.SWAPS,
        on=PLANNING,
        default=(),
    )
    treat: Mapping[str, str] = option(
        Pairs(Text(), metavar="COL=HOW", example='"income=top 99 %"'),
        'What is done to a column that is not a key: "income=top 99 %, round 100", "wage=noise 5 %", "wealth=microaggregate 5", '
        '"birth=date to month", "job=pram", "phone=drop"; also levels, as for a key.',
        Group.RECODING,
        on=PLANNING,
        default_factory=dict,
        is_main=True,
        check=_read_treatments,
    )
    spare: tuple[str, ...] = option(
        Names(),
        "Columns beside the keys whose means by level should move little: partners alike in them are preferred. Sensitive columns "
        "are spared unless others are named.",
        Group.KEPT,
        on=PROTECTING,
        default=(),
    )
    max_change: float | None = option(
        Number(metavar="SHARE"),
        "Look for partners until no mean of a numeric column by level of a key moves by more than this: 0.05.",
        Group.KEPT,
        on=PROTECTING,
        default=None,
    )
    also_known: tuple[str, ...] = option(
        Names("A,B"),
        "Columns beside the keys that an intruder may hold as well, and that are not swapped: what such a one finds is judged like the "
        "rest. Without it columns are tried one by one, and the worst are shown as a warning.",
        Group.INTRUDERS,
        on=("protect", "attack"),
        default=(),
    )
    accept_leak: tuple[str, ...] = option(
        Names(),
        "Columns that may be released although they give away what was done to a key; the report names them.",
        Group.KEPT,
        on=PLANNING,
        default=(),
    )
    weight_classes: int = option(
        Count(metavar="K"),
        "With survey weights, swap within this many classes of similar weight, or within equal weights where they take few values; 0 for any "
        "weight.",
        Group.SWAPS,
        on=PLANNING,
        default=10,
    )
    rake: bool = option(
        Switch(),
        "Recompute survey weights after the swaps: moved records get weights like those of their new values, and all are raked to the "
        "weighted totals of the keys that weights depend on. Partners then need no similar weights.",
        Group.SWAPS,
        on=PLANNING,
        default=False,
    )
    released: str | None = option(
        Place("DIR", is_folder=True),
        "Folder of an earlier protection of this file, which an intruder may hold as well. Its seed is used unless another is given, so that "
        "with the same choices the same values move in the same way.",
        Group.INTRUDERS,
        on=PROTECTING,
        default=None,
    )
    formal: Mapping[str, Any] = option(
        Part(owner=FormalConfig, what="A formal release", example="epsilon=12"),
        "Instead, change records at random with a stated ε: epsilon=12 or rate=0.05; also root=a,b and rare=3.",
        Group.SWAPS,
        on=PROTECTING,
        default_factory=dict,
    )

    def __post_init__(self) -> None:
        judged(self)
        if self.formal:
            FormalConfig.of(self.formal)
        ways = self._ways()
        if self.swap_rate is not None and set(ways) - {"--risk-above"}:
            raise BadInput("--swap-rate is given alone, or with --risk-above, the risk above which records must change places.")
        for name in ("rules", "distances", "weights", "decoys", "max_sure_links") if self.swap_rate is not None else ():
            if getattr(self, name) or (name == "max_sure_links" and self.max_sure_links is not None):
                raise BadInput(
                    f"'{name}' has no effect where records change places (--swap-rate): only areas are exchanged. Leave it out."
                )
        self._check_kept()
        if self.swap_rate is None and self.similar:
            raise BadInput("--similar says who may change places with whom; give --swap-rate as well.")
        if len(ways) > 1:
            raise BadInput(
                f"Records to protect were chosen in {len(ways)} ways: by {' and by '.join(ways)}. Choose one, because they name different records."
            )

    def _check_kept(self) -> None:
        """Refuse what would change tables that are to be kept: a table of a column that is released in coarser levels stays."""
        kept = {name for names in self.keep for name in names}
        # Records that change places may take a column of a kept table along, because they are chosen by it.
        travelling = [] if self.swap_rate is not None else [name for name in self.carry if name in kept]
        if travelling:
            raise BadInput(
                f"'{travelling[0]}' is in a table that is to be kept (--keep), but it is to travel with swapped keys (--carry). Leave one of them "
                "out."
            )
        if not kept or not self.treat:
            return
        from rarecell.data.treatment_text import DROP, LEVELS, parse_treatments

        for name, steps in parse_treatments(self.treat).items():
            for other in (name, *(other for step in steps for other in step.together)):
                if other in kept and steps[0].kind == DROP:
                    raise BadInput(
                        f"'{other}' is in a table that is to be kept (--keep), but it is not released. Leave one of them out."
                    )
                if other in kept and steps[0].kind != LEVELS:
                    raise BadInput(_changed_though_kept(other, "--treat"))

    @property
    def chooses_records(self) -> bool:
        return bool(self.formal or self.swap_rate is not None or self.k is not None or self._ways())

    @property
    def without_choice(self) -> ProtectConfig:
        """The same without records that were named or a target for the file."""
        nothing: dict[str, Any] = dict.fromkeys((*_SINGLE_WAYS, *_TARGET))
        return replace(self, **nothing)

    @property
    def is_for_k_alone(self) -> bool:
        """Whether nothing but the least size of groups says which records are to be protected."""
        return self.k is not None and not self._ways() and self.swap_rate is None

    @property
    def limits_attributes(self) -> bool:
        """Whether what groups give away about sensitive columns is to be lowered."""
        return any(getattr(self, name) is not None for name in _OF_ATTRIBUTES)

    @property
    def has_target(self) -> bool:
        """Whether records are chosen by a target for the file."""
        return any(getattr(self, name) is not None for name in _TARGET)

    def _ways(self) -> list[str]:
        """How records are chosen, in the words of the command line; the parts of a target count as one way."""
        ways = [f"--{name.replace('_', '-')}" for name in _SINGLE_WAYS if getattr(self, name) is not None]
        named = [f"--{name.replace('_', '-')}" for name in _TARGET if getattr(self, name) is not None]
        return [*ways, " with ".join(named)] if named else ways


@described
@dataclass(frozen=True)
class RunConfig:
    """Every choice of a run."""

    input: str = option(
        Place(),
        "The microdata file, or path or address of a database together with a query.",
        Group.FILE,
        on=READING,
        is_saved=True,
    )
    keys: tuple[str, ...] = option(
        Names("A,B,C"), "Columns an intruder could know.", Group.INTRUDERS, on=(*READING, "attack"), is_main=True, is_saved=True
    )
    population: int | None = option(
        Count(1, LARGEST_COUNT),
        "Number of units the sample was drawn from.",
        Group.PEOPLE,
        on=(*READING, "attack"),
        default=None,
        is_main=True,
        is_saved=True,
    )
    weight: str | None = option(
        Text("COL"),
        "Column of survey weights; gives the population when --population does not.",
        Group.PEOPLE,
        on=(*READING, "attack"),
        default=None,
        is_main=True,
    )
    household: str | None = option(
        Text("COL"),
        "Column that numbers households, or several that do so together: area,number.",
        Group.PEOPLE,
        on=(*ASSESSING, "attack"),
        default=None,
        is_main=True,
    )
    household_order: tuple[str, ...] = option(
        Names(),
        "Columns that give the order of the members of a household; found from the data unless given, householder and age first.",
        Group.PEOPLE,
        default=(),
    )
    households_known: str = option(
        Word(choices.YES_NO),
        "Whether an intruder knows who lives with whom. With no, only persons are judged.",
        Group.INTRUDERS,
        default="yes",
        label="An intruder knows who lives with whom",
    )
    geography: str | None = option(
        Text("COL"),
        'Column of the area, or nested areas from coarse to fine: "region>district".',
        Group.PEOPLE,
        default=None,
        check=nested_areas,
    )
    strata: str | None = option(Text("COL"), "Column of the sampling strata.", Group.PEOPLE, default=None)
    populations: Mapping[str, int] = option(
        Pairs(Count(1, LARGEST_COUNT), metavar="NAME=N,…", example="north=120000,south=80000", at_commas=True),
        "Population of each stratum: north=120000,south=80000.",
        Group.PEOPLE,
        default_factory=dict,
    )
    stages: str | None = option(
        Text('"COL: M of K"'),
        'Areas that were drawn first, and how many of how many: "district: 40 of 312".',
        Group.PEOPLE,
        default=None,
        check=SamplingStages.of,
    )
    sensitive: tuple[str, ...] = option(Names(), "Columns an intruder would like to learn.", Group.INTRUDERS, default=())
    id: str | None = option(
        Text("COL"),
        "Column that names the record; several that do so together: area,person.",
        Group.PEOPLE,
        on=(*ASSESSING, "attack"),
        default=None,
    )
    register: str | None = option(
        Place(),
        "The whole population, if you hold it: exact numbers next to the estimates.",
        Group.INTRUDERS,
        on=(*ASSESSING, "attack"),
        default=None,
    )
    key_error: Mapping[str, float] = option(
        Shares(),
        "Share of values that differ between the file and an intruder's register: 0.05, or by key: age=0.05,sex=0.01.",
        Group.INTRUDERS,
        on=("assess", "protect", "attack"),
        default_factory=dict,
    )
    scenario: Mapping[str, Mapping[str, Any]] = option(
        Pairs(Intruder(), metavar="NAME=KEYS", example="neighbour=age,sex,region"),
        "A further intruder and the keys it knows: neighbour=age,sex,region.",
        Group.INTRUDERS,
        default_factory=dict,
    )
    analysis: Mapping[str, Mapping[str, Any]] = option(
        Pairs(TomlTable(), metavar="NAME=WHAT", example="'wage=regression=\"income ~ age + sex\"'"),
        'What users want to learn from the file, run on the protected file as well: wage=regression="income ~ age + sex"; '
        "also means and table.",
        Group.KEPT,
        default_factory=dict,
    )
    missing: str = option(
        Word(choices.MISSING),
        "What a missing key value means: a value of its own (level), any value to an intruder who does not know who failed to answer "
        "(matches-anything), the true value to one whose register lacks nothing (register-complete), a record to drop, or an error (refuse).",
        Group.INTRUDERS,
        on=READING,
        default="level",
        label="A missing key value is",
    )
    missing_codes: str | None = option(
        Text('"COL=CODES; …"'),
        'Codes that mean "missing": "age=-9,99; income=998". Codes without a column count in every column; "proposed" takes what '
        "rarecell describe proposes.",
        Group.FILE,
        on=READING,
        default=None,
        is_main=True,
        check=parse_missing_codes,
    )
    coding: Mapping[str, Mapping[str, Any]] = option(
        Pairs(TomlTable(), metavar="KEY=HOW", example="'age=width=5, top=85'"),
        "How values of a key become levels, exactly: edges, width, quantiles, top, bottom, levels, ordered, missing.",
        Group.RECODING,
        on=READING,
        default_factory=dict,
    )
    recode: Mapping[str, str] = option(
        Pairs(Text(), metavar="KEY=HOW", example='"age=5-year bands"'),
        'How a key is to be released: "age=5-year bands, top 85", "age=edges 15 25 45", "age=5 groups", "job=level 2", '
        '"region=merge 01+02 as north"; "marital=ordered" or "unordered" to overrule what the data suggest.',
        Group.RECODING,
        on=READING,
        default_factory=dict,
        is_main=True,
    )
    hierarchies: Mapping[str, str] = option(
        Pairs(Place(), metavar="KEY=CSV", example="occupation=occupation.csv"),
        "Nested groups of a key's levels, one row for each level.",
        Group.RECODING,
        flag="--hierarchy",
        default_factory=dict,
    )
    sql: str | None = option(
        Text(),
        "A query to read instead of a file; FILE is then a database to attach, if any.",
        Group.FILE,
        on=READING,
        default=None,
    )
    encoding: str | None = option(
        Text("NAME"),
        "Encoding of a text file that is not UTF-8: latin-1, windows-1252, utf-16.",
        Group.FILE,
        on=(*READING, "attack"),
        default=None,
    )
    sheet: str | None = option(
        Text("NAME"), "Sheet of a workbook; the first unless given.", Group.FILE, on=(*READING, "attack"), default=None
    )
    decimal: str | None = option(
        Text("MARK"),
        "Decimal mark in a text file, . or a comma; inferred from the delimiter unless given.",
        Group.FILE,
        on=(*READING, "attack"),
        default=None,
    )
    spark_table: str | None = option(
        Text("NAME"), "A Spark table, or a path that Spark reads, instead of a file.", Group.FILE, on=READING, default=None
    )
    criterion: str = option(
        Word(choices.CRITERIA, metavar="NAME", is_open=True),
        "How the best single model is chosen: aic, bic, bayes, skinner-shlomo, or a penalty for each degree of freedom.",
        Group.RISK,
        default="aic",
        label="Models are compared by",
        is_saved=True,
        check=check_criterion,
    )
    search: str = option(
        Word(choices.SEARCHES),
        "How to search for that model.",
        Group.RISK,
        default="auto",
        label="The model is searched for by",
        is_saved=True,
    )
    max_clique: int | None = option(Count(1), "Largest number of keys in a clique.", Group.RISK, default=None)
    restarts: int = option(Count(1), "Starts of the local search.", Group.RISK, default=100)
    time_limit: float = option(
        Number(metavar="SECONDS", excludes_low=True),
        "Time after which a search among many keys ends with the best model so far.",
        Group.RISK,
        default=45.0,
    )
    model: str = option(
        Word(choices.MODELS, metavar="NAME"),
        "Where the risk comes from: average (back-off models, averaged over orders of the keys), single (the best decomposable model), "
        "bayes (decomposable models drawn from their posterior), hierarchical (the best model around it, chordal or not), regularised "
        "(all pairs of keys), stacked (a mixture weighted by held-out likelihood), independence or saturated.",
        Group.RISK,
        default="average",
        label="Risk comes from",
        is_saved=True,
    )
    cliques: tuple[tuple[str, ...], ...] = option(Sets(), "A model by name instead of a search.", Group.RISK, default=())
    resolution: str = option(
        Word(choices.RESOLUTIONS),
        "Offer keys with many levels at coarser resolutions too, or not.",
        Group.RISK,
        default="multi",
        label="Keys with many values take part",
        is_saved=True,
    )
    zeros: str = option(
        Word(dict.fromkeys(choices.ZEROS, ""), metavar="swaps|detect|off|FILE", is_open=True),
        "Structural zeros: keep swaps from creating them, also leave them out of the model, ignore them, or read a list from FILE.",
        Group.RISK,
        default="swaps",
    )
    form: str = option(
        Word(choices.FORMS),
        "Distribution of the population count of a cell.",
        Group.RISK,
        default="multinomial",
        label="Population counts are",
    )
    threshold: float = option(Number(high=1.0, metavar="P"), "Risk from which a record is listed.", Group.RESULTS, default=0.2)
    memory: str | None = option(
        Text("SIZE"),
        "Memory the run may use, such as 4GB; half of the machine's unless given.",
        Group.FILE,
        on=READING,
        default=None,
        check=MemoryLimit.of,
    )
    seed: int = option(
        Count(high=LARGEST_INTEGER),
        "Seed of every random choice; the swaps of a file that is written have a secret one unless it is given.",
        Group.RISK,
        on=(*READING, "attack"),
        default=0,
        label="Seed of random choices",
        is_saved=True,
    )
    profile: str | None = option(
        Word({"": "none named: scientific", **{name: known.title for name, known in PROFILES.items()}}, "NAME", is_open=True),
        "What the office accepts; the verdict follows from it: public, scientific, safe-centre, clinical, or a TOML file of your own.",
        Group.RESULTS,
        on=("assess", "protect"),
        default=None,
        is_main=True,
        check=Profile.named,
        label="Release profile",
    )
    by: str | None = option(Text("NAME"), "Who runs it, for the first page of the report.", Group.RESULTS, default=None)
    protect: ProtectConfig | None = field(default=None)

    def __post_init__(self) -> None:
        judged(self)
        if not self.keys:
            raise BadInput("No key was named. Name the columns an intruder could know, for example --keys age,sex,region.")
        if (self.strata is None) != (not self.populations):
            raise BadInput("Strata need both the column with the stratum of each record and the population of each stratum.")
        if self.strata is not None and self.weight is not None:
            raise BadInput("Strata and survey weights were both given; the sizes of strata imply weights, so give one of them.")
        if self.populations and self.population not in (None, in_all := sum(self.populations.values())):
            mismatch = f"The population was given as {self.population:,}, but the strata add up to {in_all:,}."
            raise BadInput(f"{mismatch} Correct the size of a stratum, or leave out the population.")
        if self.stages is not None and self.strata is not None:
            raise BadInput(
                "Stages and strata were both given. If areas were drawn first and their sizes are known, name them as strata with "
                "their populations; otherwise give --stages alone."
            )
        if self.population is None and self.weight is None and self.strata is None:
            raise BadInput(
                "The size of the population is not known. Give the number of units the sample was drawn from with "
                "--population, or the column of survey weights with --weight."
            )
        if self.key_error and self.register is not None:
            raise BadInput(ERRORS_OF_A_REGISTER)
        unknown = [name for name in self.key_error if name not in (choices.EVERY_KEY, *self.keys)]
        if unknown:
            raise UnknownColumns.among(unknown, list(self.keys), role="key with errors")
        if self.spark_table is not None and (self.sql is not None or self.input):
            raise BadInput("Both a Spark table and a file or query were named as the data; name one of them.")
        check_scenarios(self.scenarios, self.keys)
        if self.protect is not None and self.protect.limits_attributes:
            self._check_attributes(self.protect)
        if self.protect is not None and self.protect.swap_rate is not None:
            self._check_places(self.protect)
        if self.protect is not None and self.protect.rake:
            self._check_raking(self.protect)

    def _check_raking(self, protect: ProtectConfig) -> None:
        if self.weight is None:
            raise BadInput("--rake recomputes survey weights; name their column with --weight.")
        if any(self.weight in names for names in protect.keep):
            raise BadInput(_changed_though_kept(self.weight, "--rake"))
        if protect.formal or self.weight in protect.treat:
            raise BadInput(
                f"'{self.weight}' cannot be raked in a formal release, or where it is treated as well. Leave one of them out."
            )

    def _check_attributes(self, protect: ProtectConfig) -> None:
        flag = next(f"--{name.replace('_', '-')}" for name in _OF_ATTRIBUTES if getattr(protect, name) is not None)
        if not self.sensitive:
            raise BadInput(
                f"{flag} is about what groups give away; name the columns an intruder would like to learn with --sensitive."
            )
        for name in self.sensitive:
            if name in protect.treat:
                raise BadInput(
                    f"'{name}' is both to be treated (--treat) and to be blanked where groups give it away ({flag}). Leave one of them out."
                )
            if any(name in names for names in protect.keep):
                raise BadInput(
                    f"'{name}' is in a table that is to be kept (--keep), but {flag} blanks its values. Leave one of them out."
                )

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
        for name, value in saved(self):
            document[name] = without_password(value) if name == "input" else value
        if self.protect is not None:
            table = tomlkit.table()
            for name, value in saved(self.protect):
                table[name] = value
            document["protect"] = table
        return tomlkit.dumps(document)

    @classmethod
    def from_toml(cls, text: str, *, source: str = "the configuration") -> RunConfig:
        """Read what :meth:`to_toml` wrote or a person typed; each unknown name is reported with its nearest match."""
        return cls.from_mapping(plain_from_toml(text, source), source=source)

    @classmethod
    def from_mapping(cls, plain_values: ReadJson, *, source: str = "the configuration") -> RunConfig:
        """Build from plain values, checking every name and type."""
        values = typed_run(plain_values, source)
        if "keys" not in values and "scenario" in values:
            values["keys"] = all_keys(scenario_keys(values["scenario"]))
        for needed in ("input", "keys"):
            if needed not in values:
                raise BadInput(f"{source} lacks '{needed}'; it needs at least input and keys.")
        if "protect" in values:
            values["protect"] = ProtectConfig(**values["protect"])
        return cls(**values)

    @classmethod
    def read(cls, path: str | Path) -> RunConfig:
        """Read a ``run.toml``; a relative input path is resolved against the working directory."""
        return cls.from_mapping(read_plain(path), source=str(path))


THE_CALL = "the call"
"""Where options of a function come from, as messages name it."""


def typed_run(plain_values: ReadJson, source: str) -> Json:
    """The options of a run as their fields hold them, names and types checked; what is not given is left out."""
    values = typed(RunConfig, {name: value for name, value in plain_values.items() if name != "protect"}, source)
    protect = plain_values.get("protect")
    if protect is not None:
        if not isinstance(protect, Mapping):
            raise BadInput(f"'protect' in {source} must be a table of options.")
        values["protect"] = typed(ProtectConfig, protect, source if source == THE_CALL else f"[protect] in {source}")
    return values


def plain_from_toml(text: str, source: str) -> Json:
    """The values that a TOML text holds."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as problem:
        raise BadInput(f"{source} is not valid TOML: {problem}.") from None


def read_plain(path: str | Path) -> Json:
    """The values of a ``run.toml``, which need not be complete; the names and types are checked."""
    try:
        text = read_small_text(Path(path))
    except (OSError, UnicodeDecodeError) as problem:
        raise BadInput(f"The configuration {path} could not be read: {problem}.") from None
    plain_values = plain_from_toml(text, str(path))
    typed_run(plain_values, str(path))
    return plain_values


# ---------------------------------------------------------------------- the options of a command


def options_on(command: str) -> Iterator[tuple[type, Option]]:
    """The options of a command, each with the class whose field it is."""
    for owner in (RunConfig, ProtectConfig):
        yield from ((owner, declared) for declared in options_of(owner) if command in declared.on)


def words_of(config: RunConfig, command: str, *, but: tuple[str, ...] = ()) -> list[str]:
    """The command line that stands for a configuration: the file, then every option of the command that is not the default."""
    words = [without_password(config.input)] if config.input else []
    for owner, declared in options_on(command):
        held: RunConfig | ProtectConfig | None = config if owner is RunConfig else config.protect
        if held is None or declared.name == "input" or declared.name in but:
            continue
        value = getattr(held, declared.name)
        if value != declared.default:
            words += declared.words(value)
    return words


# ---------------------------------------------------------------------- a call with keywords

PAPER = {"model": "single", "resolution": "full", "search": "local", "criterion": "aic", "form": "multinomial"}
"""Options that make a run follow the paper's procedure."""


def paper_options(options: ReadJson) -> dict[str, str]:
    """The options that ``paper`` stands for; an option that was given another value is an error."""
    other = [name for name, value in PAPER.items() if options.get(name, value) != value]
    if other:
        raise BadInput(f"--paper already says how the model is chosen: leave out --{other[0]}, or --paper.")
    return dict(PAPER)


def follows_the_paper(config: RunConfig) -> bool:
    """Whether a run follows the paper's procedure."""
    return not config.cliques and all(getattr(config, name) == value for name, value in PAPER.items())


FRAME = "(a data frame)"
"""Stands for the input of a run whose data are a frame."""


PAPER_HELP = (
    "The procedure of Takemura and Endo: single AIC model, full resolution, local search with restarts, multinomial risk."
)
"""What ``paper`` stands for."""

Function = TypeVar("Function", bound=Callable[..., Any])


def without_other_choices(base: ReadJson, options: ReadJson) -> Json:
    """The ``protect`` part of a configuration without its choice of records, where another choice is ``options``."""
    replaced = () if not options.keys() & {*_SINGLE_WAYS, *_TARGET} else _SINGLE_WAYS
    replaced = (*replaced, *(_TARGET if options.keys() & set(_SINGLE_WAYS) else ()))
    return {name: value for name, value in base.items() if name not in replaced}


def takes_options(command: str) -> Callable[[Function], Function]:
    """Let the signature of a function that takes ``**options`` name every option of a command, for help and completion.

    Errors of a call without a configuration come from Python, and name keywords instead of options of a command.
    """

    def named(function: Function) -> Function:
        @functools.wraps(function)
        def called(*arguments: Any, **options: Any) -> Any:
            if others := [name for name in options if name not in accepted and name in declared]:
                raise BadInput(f"rarecell.{command} does not take {listed([f'{name}=' for name in others], joint='or')}.")
            try:
                return function(*arguments, **options)
            except RarecellError as problem:
                if not (arguments and isinstance(arguments[0], RunConfig)):
                    problem.args = (in_python(str(problem)),)
                raise

        signature = inspect.signature(function)
        own = [parameter for parameter in signature.parameters.values() if parameter.kind is not parameter.VAR_KEYWORD]
        taken = {parameter.name for parameter in own}
        keywords = [
            inspect.Parameter(option.name, inspect.Parameter.KEYWORD_ONLY, default=option.default)
            for _, option in options_on(command)
            if option.name != "input" and option.name not in taken
        ]
        paper = inspect.Parameter("paper", inspect.Parameter.KEYWORD_ONLY, default=False)
        parameters = [*own, *keywords, paper]
        accepted = {parameter.name for parameter in parameters}
        declared = {option.name for owner in (RunConfig, ProtectConfig) for option in options_of(owner)}
        vars(called)["__signature__"] = signature.replace(parameters=parameters)
        return cast(Function, called)

    return named


@dataclass(frozen=True, eq=False)
class Frames:
    """Data frames passed with a configuration: the data and the register; None where they come from files."""

    data: Frame = None
    register: Frame = None


NO_FRAMES = Frames()


def as_config(data: Frame, frame: Frame, options: ReadJson) -> tuple[RunConfig, Frames]:
    """Turn the arguments of a call into a configuration and its data frames, if any.

    Parameters
    ----------
    data : RunConfig, path or frame
        The first argument of the call.
    frame : frame or None
        The frame that goes with a configuration.
    options : mapping
        The keywords of the call.
    """
    register = options.get("register")
    if register is not None and not isinstance(register, str | Path):
        config, frames = as_config(data, frame, {name: value for name, value in options.items() if name != "register"})
        return replace(config, register=FRAME), replace(frames, register=register)
    if isinstance(data, RunConfig):
        if options:
            raise BadInput(
                f"The call has a configuration and the options {', '.join(options)} as well. Put them into the configuration: "
                "dataclasses.replace(config, …)."
            )
        return data, Frames(frame)
    if frame is not None:
        raise BadInput("The data were given twice. Give the frame as the first argument, or a configuration with frame=.")
    if "paper" in options:
        own_options = {name: value for name, value in options.items() if name != "paper"}
        return as_config(data, frame, {**own_options, **paper_options(own_options)} if options["paper"] else own_options)
    of_protection = {option.name for option in options_of(ProtectConfig)}
    known = [*(option.name for option in options_of(RunConfig)), *of_protection]
    if unknown := [name for name in options if name not in known]:
        raise UnknownChoice.of_names(unknown, known)
    plain_values = {name: _listed(value) for name, value in options.items() if name not in of_protection}
    protect = {name: _listed(value) for name, value in options.items() if name in of_protection and value is not None}
    if isinstance(plain_values.get("scenario"), Mapping):
        # Keys alone describe an intruder; a table may say more.
        plain_values["scenario"] = {
            name: knowledge if isinstance(knowledge, Mapping) else {"keys": _listed(knowledge)}
            for name, knowledge in plain_values["scenario"].items()
        }
    is_path = data is None or isinstance(data, str | Path)
    plain_values["input"] = str(data or "") if is_path else FRAME
    if protect:
        plain_values["protect"] = protect
    return RunConfig.from_mapping(plain_values, source=THE_CALL), Frames(None if is_path else data)


def _listed(value: object) -> Any:
    """Turn arrays and sets into lists, and paths into text."""
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    return list(value) if isinstance(value, set | frozenset | tuple) else value
