"""What would an intruder find in a file that is to be released?

Works for any released file and its original, whichever tool made it: swapped, recoded, perturbed or suppressed. Links are
either counted in a register or expected under a model of the original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rarecell.data.microdata import Microdata
from rarecell.errors import BadInput
from rarecell.intruder.alignment import Aligned, align
from rarecell.intruder.exact import exact_links
from rarecell.intruder.participant import participant_links
from rarecell.intruder.register import Register
from rarecell.intruder.release import Release
from rarecell.intruder.trial import Found, try_intruders
from rarecell.model.backoff import fit_backoff
from rarecell.outcome.attack import AttackSummary
from rarecell.outcome.shown import Shown
from rarecell.outcome.swap import IntruderSummary
from rarecell.outcome.words import about_times, counted, number
from rarecell.progress import SILENT, Progress
from rarecell.risk.records import record_risk
from rarecell.run import model_choice
from rarecell.run.paired_files import paired_tables
from rarecell.run.swaps import told_intruder

if TYPE_CHECKING:
    from rarecell.edges import Frame


@dataclass(frozen=True, eq=False)
class Attack(Shown):
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
    weight: str | None = None,
    id: str | None = None,
    seed: int = 0,
    progress: Progress = SILENT,
) -> Attack:
    """Try several intruders on a released file.

    Parameters
    ----------
    released, original : path or frame
        The two files, with the same records in the same order unless ``id`` is given.
    keys : sequence of str
        Columns that an intruder could know.
    register : path or frame, optional
        The keys of the whole population; links are then counted.
    population : float, optional
        Without a register, the number of people that the original was drawn from; links are then expected under a model.
    weight : str, optional
        Column of the original with survey weights. Without a register they say how many people each record stands for, and
        ``population`` may be omitted.
    id : str, optional
        Column that identifies a record in both files. Records may then be in any order, and some may not have been released.
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
    if (register is None) == (population is None and weight is None):
        raise BadInput(
            "Give a register of the population, in which links are counted, or the number of its people (a population or a column of "
            "survey weights), by which they are estimated, and not both."
        )
    progress.start("reading", 3)
    data = Microdata(original, keys, weight=weight, id=id)
    before, after = paired_tables(data, Microdata(released, keys, id=id), id)
    people = None if register is None else Microdata(register, keys).table()
    progress.done()
    files = align(before, after, people)
    weights = data.record_weights()
    release = Release.of_codes(files.original, files.released, files.categories, weights=weights)
    known = _register(files, release, population, seed, progress)
    found = try_intruders(release, known)
    if files.recoded:
        # The original has the finer levels, and an intruder who holds it looks at these.
        found = _with_original_as_it_is(found, align(before, before, people), (population, weights, seed), progress)
    size = known.known.table.n_records if known.risk is None else known.risk.population
    return Attack(_told(files, release, found, float(size)), found)


def _register(files: Aligned, release: Release, population: float | None, seed: int, progress: Progress) -> Register:
    if files.register is not None:
        return Register.counted(files.register)
    table = model_choice.with_resolutions(release.before, "multi")
    model = fit_backoff(table, seed=seed, progress=progress)
    sampling = "srs" if table.weights is None else "weights"
    return Register.modelled(record_risk(table, model, population=population, sampling=sampling), model, seed=seed)


def _with_original_as_it_is(
    found: tuple[Found, ...],
    files: Aligned,
    design: tuple[float | None, NDArray[np.float64] | None, int],
    progress: Progress,
) -> tuple[Found, ...]:
    """The same, with what is found before taken from the original in its own levels."""
    population, weights, seed = design
    original = Release.of_codes(files.original, files.original, files.categories, weights=weights)
    exact = exact_links(original, _register(files, original, population, seed, progress))
    join = participant_links(original)
    return tuple(replace(one, before=join if one.name == "participant" else exact) for one in found)


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
        not_released=len(release.gone),
        not_in_register=_not_in_register(files, release),
        at_random=unique / population,
        intruders=intruders,
        sentence=_sentence(files, release, intruders, unique / population),
    )


def _not_in_register(files: Aligned, release: Release) -> int:
    """Number of records of the original with values that nobody in the register has."""
    if files.register is None:
        return 0
    return int(release.before.counts[files.register.counts_of(release.before.cells) == 0].sum())


def _sentence(files: Aligned, release: Release, intruders: Sequence[IntruderSummary], at_random: float) -> str:
    nearest = next(one for one in intruders if one.name == "nearest")
    basis = "is" if files.register is not None else "is expected to be"
    apart = "Apart from recoded keys, " if files.recoded else ""
    return (
        f"{apart}{counted(len(release.rows), 'record')} of {number(len(files.original))} {'has' if len(release.rows) == 1 else 'have'} other key "
        f"values than in the original. An intruder who links every record that is unique in the released file to the nearest person "
        f"{basis} right {about_times(nearest.after)}, {about_times(nearest.before)} in the original; linking at random would be right "
        f"{number(at_random, 2)} times."
    )
