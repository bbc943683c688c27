"""What exactly is guaranteed, and what is not?

The ε of a release means nothing without its invariants, so the two are printed in one sentence. The cautions below apply to
every release; whoever quotes ε should quote them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from rarecell.outcome.plain import Plain
from rarecell.outcome.words import listed, percent

CAUTIONS = (
    "ε says nothing about what the invariants themselves reveal: cells of one record in the tables of the cliques, and records "
    "that the margins determine.",
    "More invariants make ε smaller only because less is left to protect; ε of different models, or ε of ordinary differential "
    "privacy, cannot be compared with this one.",
    "Two files that share the invariants differ in at least two records, so the factor to reckon with is at least e^(2ε).",
    "It covers a single release. A second run on the same file, with whatever options, spends further ε, and the two add up.",
    "It holds while the random numbers stay secret. They start from the operating system's and are written nowhere; a seed given "
    "by hand must be kept secret for ever.",
    "It covers the released file. Other figures about the original, such as its risk or what was changed, are not covered.",
)
"""Sentences that accompany every ε."""


@dataclass(frozen=True, kw_only=True)
class EdgeStatement(Plain):
    """One edge of the tree: what moves, between which records, at what ε.

    Attributes
    ----------
    separator : tuple of str
        Records exchange parts if they agree on these keys.
    moved : tuple of str
        The keys that move.
    parent : tuple of str
        The clique above, by whose value records can be targeted.
    epsilon : float
        −ln θ; 0 for a plain shuffle and for a side that cannot change.
    is_free : bool
        The side is constant in every stratum, so nothing can change.
    """

    separator: tuple[str, ...]
    moved: tuple[str, ...]
    parent: tuple[str, ...]
    epsilon: float
    is_free: bool

    @property
    def theta(self) -> float:
        return math.exp(-self.epsilon)

    def __str__(self) -> str:
        within = f"records that agree on {listed(self.separator)}" if self.separator else "all records"
        cost = "nothing can change" if self.is_free else f"ε {self.epsilon:.3f}"
        return f"{listed(self.moved)} between {within}: {cost}"


@dataclass(frozen=True, kw_only=True)
class FormalStatement(Plain):
    """What a formal release guarantees, and subject to which invariants.

    Attributes
    ----------
    epsilon : float
        The sum over the edges.
    edges : tuple of EdgeStatement
        The edges, leaves first, in the order in which they are shuffled.
    root : tuple of str
        The clique whose values stay with each record.
    cliques : tuple of tuple of str
        The sets of keys whose tables are kept.
    rare : int
        Records whose value of the parent clique occurs at most this often are always shuffled.
    is_model_chosen : bool
        The model was chosen on these data, and so counts as an invariant.
    expected_records_changed, expected_uniques_changed : float
        Shares of records and of sample uniques, computed on files drawn at random among all that share the invariants.
    """

    epsilon: float
    edges: tuple[EdgeStatement, ...]
    root: tuple[str, ...]
    cliques: tuple[tuple[str, ...], ...]
    rare: int
    is_model_chosen: bool
    expected_records_changed: float
    expected_uniques_changed: float

    @property
    def invariants(self) -> tuple[str, ...]:
        """What all files that the guarantee compares have in common."""
        tables = "; ".join(", ".join(clique) for clique in self.cliques)
        chosen = ("the model, its levels and coarsenings, which were chosen on these data",) if self.is_model_chosen else ()
        return (
            f"the tables of {tables}",
            f"{listed(self.root)} of every record",
            "every column that is not a key, and every record that was left out, as they are",
            *chosen,
        )

    @property
    def sentence(self) -> str:
        """ε and its invariants in one sentence."""
        return (
            f"Subject to its invariants, this release is private with ε = {self.epsilon:.4g} for each record: two files that agree in "
            f"{'; in '.join(self.invariants)}; and that differ in d records give any one release with probabilities whose ratio is "
            f"at most e^({self.epsilon:.4g}·d)."
        )

    @property
    def expectation(self) -> str:
        return (
            f"In files with the same invariants {percent(self.expected_records_changed)} of the records and "
            f"{percent(self.expected_uniques_changed)} of the sample uniques are expected to change."
        )

    @property
    def cautions(self) -> tuple[str, ...]:
        return CAUTIONS

    def __str__(self) -> str:
        return f"{self.sentence} {self.expectation}"


@dataclass(frozen=True, kw_only=True)
class FormalSummary(Plain):
    """The ``swap.formal`` part of ``summary.json``.

    Attributes
    ----------
    statement : FormalStatement
        What is guaranteed; depends on invariants alone.
    sentence, expectation : str
        The same in words.
    cautions : tuple of str
        Sentences that accompany every ε.
    possibility : str or None
        What became of combinations that look impossible, if there are any.
    records_changed, uniques_changed : int or None
        What actually changed; for internal use, because it depends on the file.
    """

    statement: FormalStatement
    sentence: str
    expectation: str
    cautions: tuple[str, ...]
    possibility: str | None = None
    records_changed: int | None = None
    uniques_changed: int | None = None

    @classmethod
    def of(
        cls, statement: FormalStatement, *, records_changed: int, uniques_changed: int, n_impossible: int = 0
    ) -> FormalSummary:
        possibility = None
        if n_impossible:
            possibility = (
                f"{n_impossible:,} combinations of values look impossible in this file and may occur in the release: a rule that kept "
                "them out would void the guarantee."
            )
        return cls(
            statement=statement,
            sentence=statement.sentence,
            expectation=statement.expectation,
            cautions=statement.cautions,
            possibility=possibility,
            records_changed=records_changed,
            uniques_changed=uniques_changed,
        )
