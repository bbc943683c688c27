"""What would an intruder find in a file that is to be released?

Works for any released file and its original, whichever tool made it: swapped, recoded, perturbed or suppressed. Links are
either counted in a register or expected under a model of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.intruder.alignment import Aligned, align
from rarecell.intruder.register import Register
from rarecell.intruder.release import Release
from rarecell.intruder.trial import Found, try_intruders
from rarecell.model.backoff import fit_backoff
from rarecell.outcome.attack import AttackSummary
from rarecell.outcome.swap import IntruderSummary
from rarecell.outcome.words import about_times, counted, number
from rarecell.progress import SILENT, Progress
from rarecell.risk.records import record_risk
from rarecell.run import model_choice
from rarecell.run.swaps import told_intruder

if TYPE_CHECKING:
    from rarecell.edges import Frame


@dataclass(frozen=True, eq=False)
class Attack:
    """What each intruder finds in a released file.

    Attributes
    ----------
    summary : AttackSummary
        The numbers, without any record.
    found : tuple of Found
        The links of each intruder before and after.
    """

    summary: AttackSummary
    found: tuple[Found, ...] = field(repr=False)

    def likeliest(self, n: int = 20) -> list[tuple[int, float]]:
        """The records that the nearest intruder links with the highest probability, by row number; for internal use."""
        links = next(one.after for one in self.found if one.name == "nearest")
        order = np.argsort(-links.link, kind="stable")[:n]
        return [(int(links.row[place]), float(links.link[place])) for place in order if links.link[place] > 0.0]

    def per_record(self, intruder: str = "nearest") -> NDArray[np.float64]:
        """The probability that this intruder links each record to the right person; 0 where it makes no claim."""
        links = next(one.after for one in self.found if one.name == intruder)
        probability = np.zeros(self.summary.records)
        known = links.row >= 0
        probability[links.row[known]] = links.link[known]
        return probability

    def __str__(self) -> str:
        return self.summary.sentence

    def __repr__(self) -> str:
        nearest = next(one for one in self.summary.intruders if one.name == "nearest")
        return f"Attack({self.summary.records:,} records, nearest intruder right {nearest.after:,.1f} times, {nearest.before:,.1f} before)"


def attack(
    released: Frame,
    *,
    original: Frame,
    keys: Sequence[str],
    register: Frame = None,
    population: float | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Attack:
    """Try several intruders on a released file.

    Parameters
    ----------
    released, original : path or frame
        The two files, with the same records in the same order.
    keys : sequence of str
        Columns that an intruder could know.
    register : path or frame, optional
        The keys of the whole population; links are then counted.
    population : float, optional
        Without a register, the number of people that the original was drawn from; links are then expected under a model.
    seed : int, optional
        Seed of the model's draws.
    progress : Progress, optional
        Receives progress reports.

    Returns
    -------
    Attack
        What each intruder finds.

    Examples
    --------
    >>> import rarecell as rc
    >>> from rarecell import datasets
    >>> sample, keys = datasets.census_sample(), ["age", "sex", "marital", "relationship"]
    >>> done = rc.attack(sample, original=sample, keys=keys, register=datasets.census_population())
    >>> nearest = done.summary.intruders[1]
    >>> nearest.before == nearest.after
    True
    """
    if (register is None) == (population is None):
        raise BadInput("Give a register of the population, or the number of its persons with a population, and not both.")
    progress.start("reading", 3)
    tables = [Microdata(data, keys).table(records=True) for data in (original, released)]
    people = None if register is None else Microdata(register, keys).table()
    progress.done()
    files = align(tables[0], tables[1], people)
    release = Release.of_codes(files.original, files.released, files.categories)
    known = _register(files, release, population, seed, progress)
    found = try_intruders(release, known)
    size = float(population if files.register is None else files.register.n_records)  # type: ignore[arg-type]
    return Attack(_told(files, release, found, size), found)


def _register(files: Aligned, release: Release, population: float | None, seed: int, progress: Progress) -> Register:
    if files.register is not None:
        return Register.counted(files.register)
    table = model_choice.with_resolutions(release.before, "multi")
    model = fit_backoff(table, seed=seed, progress=progress)
    return Register.modelled(record_risk(table, model, population=population), model, seed=seed)


def _told(files: Aligned, release: Release, found: tuple[Found, ...], population: float) -> AttackSummary:
    unique = int((release.after.counts == 1).sum())
    intruders = tuple(told_intruder(one) for one in found)
    return AttackSummary(
        records=len(files.original),
        changed=len(release.rows),
        unique=unique,
        population=population,
        is_counted=files.register is not None,
        recoded=files.recoded,
        at_random=unique / population,
        intruders=intruders,
        sentence=_sentence(files, release, intruders, unique / population),
    )


def _sentence(files: Aligned, release: Release, intruders: Sequence[IntruderSummary], at_random: float) -> str:
    nearest = next(one for one in intruders if one.name == "nearest")
    basis = "is" if files.register is not None else "is expected to be"
    return (
        f"{counted(len(release.rows), 'record')} of {number(len(files.original))} {'has' if len(release.rows) == 1 else 'have'} other key "
        f"values than in the original. An intruder who links every record that is unique in the released file to the nearest person "
        f"{basis} right {about_times(nearest.after)}, {about_times(nearest.before)} in the original; linking at random would be right "
        f"{number(at_random, 2)} times."
    )
