"""What does an office accept before it lets a file go?

A profile is a rule that is stated before a run and printed with its result: the highest risk of a record, how many links may be
right and for which intruders, the least number of records that share their key values, what other columns may give away, how far
named statistics may move, and how far the estimate must be trusted. :func:`rarecell.outcome.decision.decided` applies it. The
shipped profiles are starting points; an office writes its own as a TOML file with the same names.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from rarecell.errors import BadInput, nearest_names
from rarecell.outcome.plain import Plain

RELEASE, LOOK, DO_NOT_RELEASE = "release", "look", "do not release"
"""The three verdicts."""

LIGHTS = ("green", "amber", "red")
"""Lights of the reliability, the best first."""

HEADLINES = {RELEASE: "Release", LOOK: "Release after a look", DO_NOT_RELEASE: "Do not release"}
"""Each verdict as a heading."""


@dataclass(frozen=True, kw_only=True)
class Profile(Plain):
    """What an office accepts. A limit that is None is not looked at.

    Attributes
    ----------
    name, title : str
        The word for ``--profile``, and what it is in a few words.
    source : str
        Where the limits come from.
    max_record_risk : float or None
        Highest risk of a record: that it is alone in the population, or linked although it was swapped.
    max_match_risk : float or None
        Highest chance that a link to a record is right, certain or not: one over the number of people who look like it.
    max_correct_links, max_correct_links_share : float or None
        Expected correct links of any of the intruders, as a number and as a share of the records.
    intruders : tuple of str
        The intruders to whom these limits apply, as far as a run has them.
    max_household_links_share : float or None
        Expected share of households that are linked correctly by somebody who knows who lives together.
    least_k : int or None
        Least number of records that must share their key values.
    least_l_diversity, max_t_closeness, max_guess_gain : int, float, float or None
        What groups of equal key values may give away about sensitive columns: the least number of values in a group, the largest distance
        between a group and the file, and the share of people about whom a guess from the group is right and one from the file is not.
    max_leak : float or None
        Share of the values of a key that another column may give away.
    max_change : float or None
        Largest relative change of a statistic that the user named.
    worst_light : str
        The worst light of the reliability with which a file may go: ``"green"``, ``"amber"`` or ``"red"``.
    """

    name: str
    title: str = ""
    source: str = ""
    max_record_risk: float | None = None
    max_match_risk: float | None = None
    max_correct_links: float | None = None
    max_correct_links_share: float | None = None
    intruders: tuple[str, ...] = ("exact", "nearest")
    max_household_links_share: float | None = None
    least_k: int | None = None
    least_l_diversity: int | None = None
    max_t_closeness: float | None = None
    max_guess_gain: float | None = None
    max_leak: float | None = None
    max_change: float | None = None
    worst_light: str = "amber"

    def __post_init__(self) -> None:
        for limit in _SHARES:
            share = getattr(self, limit)
            if share is not None and not 0.0 <= share <= 1.0:
                raise BadInput(f"'{limit}' of the profile '{self.name}' is {share:g}. It is a share: give a number from 0 to 1.")
        for limit, least in (("max_correct_links", 0.0), ("least_k", 1), ("least_l_diversity", 1), ("max_change", 0.0)):
            bound = getattr(self, limit)
            if bound is not None and not bound >= least:
                raise BadInput(f"'{limit}' of the profile '{self.name}' is {bound:g}. Give a number of at least {least:g}.")
        if self.worst_light not in LIGHTS:
            raise BadInput(
                f"'worst_light' of the profile '{self.name}' is '{self.worst_light}'. Give one of {', '.join(LIGHTS)}."
            )

    @classmethod
    def named(cls, words: str) -> Profile:
        """A shipped profile by its name, or one of the office's own by the path of its TOML file."""
        if words in PROFILES:
            return PROFILES[words]
        if words.endswith(".toml"):
            return cls.read(Path(words))
        near = nearest_names(words, PROFILES)
        raise BadInput(
            f"There is no profile '{words}'.{f' Did you mean {near[0]}?' if near else ''} Give one of {', '.join(PROFILES)}, or the path "
            "of a TOML file of your own."
        )

    @classmethod
    def read(cls, path: Path) -> Profile:
        """Read a profile from a TOML file with the names of the fields; one without a name is called by the file's."""
        if path.exists() and not path.is_file():
            raise BadInput(f"The profile {path} is not a file but a folder, a pipe or a device.")
        try:
            values = tomllib.loads(path.read_text(encoding="utf-8"))
        except OSError as problem:
            raise BadInput(f"The profile {path} cannot be read: {problem.strerror or problem}.") from None
        except (UnicodeDecodeError, tomllib.TOMLDecodeError) as problem:
            raise BadInput(f"The profile {path} is not a TOML file: {problem}.") from None
        return cls.from_toml({"name": path.stem, **values}, where=str(path))

    @classmethod
    def from_toml(cls, values: Mapping[str, Any], *, where: str) -> Profile:
        limits = [part.name for part in fields(cls)]
        for name in values:
            if name not in limits:
                near = nearest_names(name, limits)
                raise BadInput(
                    f"{where} has '{name}', which no profile has.{f' Did you mean {near[0]}?' if near else ''} A profile may have "
                    f"{', '.join(limits)}."
                )
        return cls.from_dict(values, where=where)


_SHARES = (
    "max_record_risk",
    "max_match_risk",
    "max_correct_links_share",
    "max_household_links_share",
    "max_t_closeness",
    "max_guess_gain",
    "max_leak",
)
"""Limits that are numbers from 0 to 1."""

_CHOICE = "The limits are a choice of this program, not of an authority. Replace them with those of your office."

PROFILES: Mapping[str, Profile] = {
    profile.name: profile
    for profile in (
        Profile(
            name="public",
            title="public use: anybody may have the file",
            source=(
                f"{_CHOICE} Guidelines ask for a very small risk here because nothing else protects the file; see Benschop, Machingauta "
                "and Welch, Statistical Disclosure Control: A Practice Guide (World Bank)."
            ),
            max_record_risk=0.05,
            max_correct_links_share=0.001,
            intruders=("exact", "nearest", "informed", "shadow", "unpaired"),
            max_household_links_share=0.001,
            max_leak=0.5,
        ),
        Profile(
            name="scientific",
            title="scientific use: researchers under contract",
            source=(
                f"{_CHOICE} They allow more than a public file does, because a contract forbids attempts to recognise people; see Hundepool "
                "and others, Statistical Disclosure Control (Wiley, 2012)."
            ),
            max_record_risk=0.2,
            max_correct_links_share=0.01,
            intruders=("exact", "nearest"),
            max_household_links_share=0.01,
            max_leak=0.9,
        ),
        Profile(
            name="safe-centre",
            title="safe centre: analysed on the office's own computers, outputs checked",
            source=f"{_CHOICE} Most of the protection is outside the file: the place, the people and the checks of outputs.",
            max_record_risk=0.5,
            max_correct_links_share=0.05,
            intruders=("exact", "nearest"),
            max_household_links_share=0.1,
        ),
        Profile(
            name="clinical",
            title="clinical data for publication, highest risk 0.09",
            source=(
                "The threshold of 0.09 is quoted from the European Medicines Agency's external guidance on policy 0070 (EMA/90915/2016) and "
                "Health Canada's guidance on the public release of clinical information. It was not compared with the documents: "
                "check it before you rely on it."
            ),
            max_match_risk=0.09,
            intruders=("exact", "nearest", "informed", "shadow"),
            max_leak=0.5,
        ),
    )
}
"""The shipped profiles, the strictest way out first."""

DEFAULT = "scientific"
"""The profile of a run that names none; its verdict is printed, and only a profile that was named sets the exit code."""


@dataclass(frozen=True, kw_only=True)
class Reason(Plain):
    """Why a file may not go, or what must be looked at first, and what leads out.

    ``limit`` is the name of the profile's field, or ``"target"``, ``"k"`` or ``"attributes"`` for what the run itself was asked to reach
    (``is_requested``). ``command`` is the next command, to be pasted where the run was started;
    ``page``, ``button`` and ``choices`` are the page of the app for the same, and how its form is filled in.
    """

    limit: str
    sentence: str
    is_refusal: bool
    is_requested: bool = False
    remedy: str = ""
    command: str = ""
    page: str = ""
    button: str = ""
    choices: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ProfileVerdict(Plain):
    """The ``release.profile`` part of ``summary.json``: the verdict of a profile on the file as it would be released.

    ``is_default`` says that no profile was named, so that this one judged without being asked for.
    """

    name: str
    verdict: str
    reasons: tuple[Reason, ...] = ()
    limits: Profile
    is_default: bool = False

    @property
    def refusals(self) -> tuple[Reason, ...]:
        return tuple(reason for reason in self.reasons if reason.is_refusal)

    @property
    def sets_exit_code(self) -> bool:
        """Whether a pipeline must stop: a profile that was named refuses, or what the run was asked to reach was not reached."""
        return any(not self.is_default or reason.is_requested for reason in self.refusals)

    @property
    def headline(self) -> str:
        """The verdict as a heading."""
        return HEADLINES[self.verdict]
