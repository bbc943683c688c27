"""What does a file without pairs give away about the people it was made from, and what does a synthetic twin keep of theirs?"""

from __future__ import annotations

from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.swap import AnalysisSummary
from rarecell.outcome.words import counted, listed, percent, verb


@dataclass(frozen=True, kw_only=True)
class UnpairedAttack(Plain):
    """How often an attack succeeds on people whom a file was made from, on people left out, and the difference.

    Attributes
    ----------
    attack : str
        ``singling out``, ``linkability`` or ``inference``.
    column : str or None
        The column that is inferred.
    people, control : float
        Share of successes on either group.
    risk : float
        (people − control) / (1 − control).
    interval : pair of float
        Its bounds at 95 %.
    original : float
        The risk of the same attack on the original file.
    """

    attack: str
    column: str | None = None
    people: float
    control: float
    risk: float
    interval: tuple[float, float]
    original: float

    @property
    def name(self) -> str:
        return f"{self.attack} of {self.column}" if self.column else self.attack


@dataclass(frozen=True, kw_only=True)
class ColumnGivenAway(Plain):
    """What a file says about a column of somebody whose keys are known.

    ``disco`` is the share of people whose keys have a single value of the column in the file, which is theirs; ``tcap`` the share of
    right values among the file's records of that kind, None if there are none.
    """

    column: str
    disco: float
    tcap: float | None = None


@dataclass(frozen=True, kw_only=True)
class UnpairedMeasures(Plain):
    """What a file without pairs gives away.

    Attributes
    ----------
    people, control : int
        Numbers of records that the file was made from, and of people left out, with whom they are compared.
    unique_exact_matches : float
        Share of the people who are unique on all columns whose combination occurs in the file.
    replicated_uniques : float
        Share of the people who are unique on the keys and whose combination occurs once in the file.
    left_out_matches : float or None
        Share of the people left out, without those whom a person of the original equals, whose combination occurs in the file. It is
        what chance alone makes of unique exact matches.
    nearer_to_people : float or None
        Share of the file's records that are nearer to a person it was made from than to one left out; one half copies nobody.
    attacks : tuple of UnpairedAttack
        Singling out, linkability, and inference of each column; none without a control group.
    columns : tuple of ColumnGivenAway
        For each column that is no key, what the keys give away of it.
    """

    people: int
    control: int
    unique_exact_matches: float
    replicated_uniques: float
    left_out_matches: float | None = None
    nearer_to_people: float | None = None
    attacks: tuple[UnpairedAttack, ...] = ()
    columns: tuple[ColumnGivenAway, ...] = ()

    @property
    def worst(self) -> UnpairedAttack | None:
        """The attack whose risk is surely the highest: that with the largest lower bound."""
        return max(self.attacks, key=lambda attack: (attack.interval[0], attack.risk), default=None)

    def __str__(self) -> str:
        chance = (
            ""
            if self.left_out_matches is None
            else f", and {percent(self.left_out_matches)} of people like them who were left out"
        )
        copied = f"{percent(self.unique_exact_matches)} of the people who are unique stand in it as they are{chance}."
        if self.worst is None:
            return f"{copied} Without people who were left out, it cannot be told what else the file itself gives away."
        return (
            f"{copied} The strongest attack is {self.worst.name}: its risk is {self.worst.risk:.2f}, and {self.worst.original:.2f} for the "
            "original file."
        )


# A twin, and what it keeps.

RESAMPLED, SMOOTHED, LEVELS = "resampled", "smoothed", "levels"
"""How the values of a column of a twin are made: from its band as they are, between neighbours in its band, or by level."""


@dataclass(frozen=True, kw_only=True)
class TwinColumn(Plain):
    """A column of a twin: its levels in the model, and how its values are made from them.

    ``rarest`` is the number of records in its rarest level: a single column is always kept exactly.
    """

    name: str
    levels: int
    values: str
    rarest: int


@dataclass(frozen=True, kw_only=True)
class KeptTable(Plain):
    """A table that is the same in the twin: its columns, occupied cells, records in the smallest, and cells that differ.

    ``rows`` says what is counted where households are drawn: those of a size, or persons drawn one by one.
    """

    variables: tuple[str, ...]
    cells: int
    smallest: int
    differing: int
    rows: str = ""


@dataclass(frozen=True, kw_only=True)
class TwinHouseholds(Plain):
    """The households of a twin.

    Attributes
    ----------
    households : int
        Their number, which is that of the original.
    drawn_apart : tuple of str
        The sizes that were drawn from each other.
    one_by_one : int
        Members of large households and institutions who were drawn one by one.
    rules : tuple of str
        What holds in every household of the original.
    breaking : int
        Households of the twin that break such a rule; of the worst twin if there are several.
    """

    households: int
    drawn_apart: tuple[str, ...]
    one_by_one: int = 0
    rules: tuple[str, ...] = ()
    breaking: int = 0

    def sentences(self) -> list[str]:
        """What a reader must know about the households."""
        sentences = [f"{counted(self.households, 'household')} were drawn size by size and numbered anew."]
        if self.one_by_one:
            sentences.append(
                f"{counted(self.one_by_one, 'member')} of large households or institutions {verb(self.one_by_one, 'was', 'were')} "
                "drawn one by one, and not together with the others of their household."
            )
        if self.breaking:
            sentences.append(
                f"{counted(self.breaking, 'household')} {verb(self.breaking, 'breaks', 'break')} a rule that holds in the original."
            )
        else:
            sentences.append("No household breaks a rule that holds in the original.")
        return sentences


@dataclass(frozen=True, kw_only=True)
class TwinUtility(Plain):
    """How near the tables of a twin are to the original's.

    Attributes
    ----------
    hellinger : dict of str to tuple of float
        For tables of 1, 2 and 3 columns, the mean and the largest Hellinger distance.
    k_marginal : float
        SDNist's score of tables of two columns: 1,000 for identical ones.
    propensity_ratio : float
        Mean squared propensity over what chance alone would give; about 1 if no classifier can tell the files apart.
    """

    hellinger: dict[str, tuple[float, ...]]
    k_marginal: float
    propensity_ratio: float


@dataclass(frozen=True, kw_only=True)
class TwinExchanges(Plain):
    """What exchanges after the draw did; of the twin with the most copies if there are several.

    Attributes
    ----------
    copies_drawn, copies : float
        Share of the people who are unique on all columns who stand in the twin, as it was drawn and after the exchanges.
    k_marginal_drawn, k_marginal : float
        SDNist's score of tables of two columns, likewise.
    """

    copies_drawn: float
    copies: float
    k_marginal_drawn: float
    k_marginal: float


@dataclass(frozen=True, kw_only=True)
class SynthesisSummary(Plain):
    """A synthetic twin: how it was drawn, what it keeps, and what it gives away.

    Attributes
    ----------
    records, files : int
        Number of records of each twin, and number of twins.
    keys : tuple of str
        Columns that an intruder could know; all of them unless some were named.
    columns : tuple of TwinColumn
        The columns of a twin.
    epsilon : float or None
        The ε of the draw; None if it was uniform.
    guarantee : str
        What is guaranteed, in a sentence, with what is not.
    certified_optimal : bool
        Whether the model is proved to be the best of all decomposable ones.
    least_count : int
        The smallest cell that a kept table of several columns may have.
    tables : tuple of KeptTable
        What is kept exactly.
    utility : TwinUtility
        How near all other tables are.
    utility_without_limit : TwinUtility or None
        How near they would be in a twin without a smallest cell, if there is one.
    exchanges : TwinExchanges or None
        What exchanges after the draw did, if records exchanged values.
    households : TwinHouseholds or None
        The households, if these were drawn.
    analyses : tuple of AnalysisSummary
        What users want to learn, from the original and from the first twin.
    measures : UnpairedMeasures or None
        What a twin gives away; None if it was not measured.
    family_measures : UnpairedMeasures or None
        What it gives away about households, each of which is a record.
    swap_measures : UnpairedMeasures or None
        What a swap of everybody who is alone on the keys gives away.
    notes : tuple of str
        What a reader must know.
    """

    records: int
    files: int
    keys: tuple[str, ...]
    columns: tuple[TwinColumn, ...]
    epsilon: float | None = None
    guarantee: str
    certified_optimal: bool
    least_count: int = 0
    tables: tuple[KeptTable, ...]
    utility: TwinUtility
    utility_without_limit: TwinUtility | None = None
    exchanges: TwinExchanges | None = None
    households: TwinHouseholds | None = None
    analyses: tuple[AnalysisSummary, ...] = ()
    measures: UnpairedMeasures | None = None
    family_measures: UnpairedMeasures | None = None
    swap_measures: UnpairedMeasures | None = None
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        if self.households is None:
            kept = listed([" × ".join(table.variables) for table in self.tables])
            exact = f"{counted(self.records, 'record')} with the same tables as the original in every cell: {kept}."
        else:
            exact = (
                f"{counted(self.records, 'record')} in {counted(self.households.households, 'household')}, with "
                f"{counted(len(self.tables), 'table')} of households by size that are the original's in every cell."
            )
        if self.measures is None:
            return f"{exact} What it gives away was not measured."
        return f"{exact} {self.measures}"
