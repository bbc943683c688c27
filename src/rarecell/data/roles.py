"""What is each column probably?

Judged by what the column holds and by what the file says about it, its label and the labels of its values, and only then by its
name, in English, German, French and Spanish and in the codes of well-known surveys. Each suggestion comes with its reason in the
words of the file. They are a starting point for a person who knows the data.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass

ROLES = ("key", "weight", "household", "geography", "strata", "sensitive", "id", "none")
"""Roles that a column can have."""

RELATIVE_WEIGHT = "relative weight"
"""What a survey weight with a mean of 1 is called: it needs the size of the population beside it."""

WHY_OTHER = "Make it a key if an outsider could know it about a person."
"""What is said about a column that looks like nothing in particular."""

MANY_LEVELS = 200
"""A column with more values than this is seldom useful as a key without grouping."""

_KNOWN = (
    *("age", "sex", "gender", "birth", "born", "marital", "married", "spouse", "school", "race", "ethnic"),
    *("education", "educ", "edu", "degree"),
    *(
        "nationality",
        "citizen",
        "country",
        "origin",
        "language",
        "occupation",
        "job",
        "profession",
        "industry",
        "class",
        "employ",
    ),
    *("relationship", "relation", "child", "children", "family", "size", "region", "state", "county", "district", "municipality"),
    *("city", "town", "zip", "postcode", "area", "hours", "tenure", "religion", "height", "province", "urban", "rural"),
    *("alter", "geschlecht", "geburt", "familienstand", "bildung", "schulabschluss", "beruf", "gemeinde", "kreis", "bundesland"),
    *("kanton", "plz", "staatsangehorigkeit", "nationalitat", "wohnort", "haushaltsgrosse", "stellung", "kinder", "erwerb"),
    *(
        "sexe",
        "naissance",
        "matrimonial",
        "diplome",
        "etude",
        "metier",
        "commune",
        "departement",
        "nationalite",
        "lien",
        "enfant",
    ),
    *("pays", "langue", "profession", "menage_taille", "logement"),
    *("edad", "sexo", "nacimiento", "civil", "educacion", "estudios", "ocupacion", "provincia", "municipio", "nacionalidad"),
    *("parentesco", "idioma", "pais", "hijos", "etnia"),
)
"""What neighbours, colleagues or a register could know."""

_SECRET = (
    *(
        "income",
        "wage",
        "salary",
        "earning",
        "wealth",
        "tax",
        "debt",
        "diagnos",
        "disease",
        "illness",
        "health",
        "drug",
        "crime",
        "benefit",
    ),
    *(
        "sexual",
        "orientation",
        "intercourse",
        "condom",
        "partners",
        "pregnan",
        "abortion",
        "contracept",
        "alcohol",
        "smok",
        "hiv",
    ),
    *("cancer", "diabet", "depress", "medicat", "violence", "arrest", "vote", "voted", "cannabis", "marijuana", "cocaine"),
    *("einkommen", "lohn", "gehalt", "verdienst", "schulden", "krank", "diagnose", "gesundheit", "sexuell", "straf"),
    *("revenu", "salaire", "impot", "dette", "maladie", "sante", "sexuel"),
    *("ingreso", "salario", "renta", "deuda", "enfermedad", "salud", "sexuales"),
)
"""What an intruder would like to learn."""

_WEIGHT = (
    *("weight", "wgt", "pwgtp", "perwt", "hhwt", "fnlwgt", "wt", "gewicht", "poids", "peso", "ponderation", "grossing"),
    *("hhweight", "wmweight", "chweight", "mnweight", "wtint", "wtmec", "wtssint", "expansion", "hochrechnung", "ponderacion"),
)
_WEIGHT_ALONE = ("w", "gew", "pond", "fex", "wts")
"""Names of a weight that mean something else as a part of a name."""

_BODY = (
    "kg",
    "kilogram",
    "kilograms",
    "pounds",
    "lbs",
    "body",
    "bmi",
    "koerper",
    "korper",
    "corporel",
    "corporal",
    "birthweight",
)
"""Words that tell the weight of a body from that of a record."""

_HOUSEHOLD = (
    "household",
    "hhid",
    "hh_id",
    "hhnr",
    "hh",
    "dwelling",
    "serialno",
    "haushalt",
    "menage",
    "family_id",
    "hogar",
    "hnum",
)
_ID = (
    "id",
    "identifier",
    "person_id",
    "persid",
    "pid",
    "caseid",
    "respid",
    "uuid",
    "serial",
    "case",
    "record",
    "seqn",
    "sequence",
)
_STRATA = ("stratum", "strata", "schicht", "strate", "estrato", "sdmvstra")
_SAMPLING = ("psu", "cluster", "sdmvpsu", "ea", "segment")
_PERSON_NUMBER = ("line", "lineno", "pernum", "person_number", "personnummer", "linea")

_SURVEYS = {
    **dict.fromkeys(("rb090", "hl4", "riagendr"), ("key", "sex")),
    **dict.fromkeys(("rb080", "pb140"), ("key", "year of birth")),
    **dict.fromkeys(("hl6", "ridageyr", "rb081", "rb082"), ("key", "age")),
    **dict.fromkeys(("pb190", "dmdmartl", "dmdmartz"), ("key", "marital status")),
    **dict.fromkeys(("pb220a", "rb290", "dmdcitzn"), ("key", "citizenship")),
    **dict.fromkeys(("pb210", "rb280", "dmdborn4"), ("key", "country of birth")),
    **dict.fromkeys(("pe040", "pe041", "dmdeduc2", "dmdeduc3"), ("key", "education")),
    **dict.fromkeys(("pl031", "pl032", "rb210"), ("key", "activity")),
    **dict.fromkeys(("pl051", "pl050"), ("key", "occupation")),
    **dict.fromkeys(("hl3", "rb240"), ("key", "relationship")),
    **dict.fromkeys(("ridreth1", "ridreth3"), ("key", "ethnicity")),
    **dict.fromkeys(("dmdhhsiz", "hx040"), ("key", "size of the household")),
    **dict.fromkeys(("db040", "hh7"), ("key", "region")),
    **dict.fromkeys(("db100", "hh6"), ("key", "degree of urbanisation")),
    **dict.fromkeys(("db090", "rb050", "pb040", "rb060"), ("weight", "survey weight")),
    **dict.fromkeys(("db030", "rb040", "hb030"), ("household", "household number")),
    **dict.fromkeys(("rb030", "pb030"), ("id", "person number")),
}
"""Names of columns in EU-SILC, MICS and NHANES, which say nothing to anybody else."""


@dataclass(frozen=True)
class ColumnFacts:
    """What is known of a column before anybody says what it is.

    Attributes
    ----------
    name, label : str
        The name of the column, and what the file says it is.
    n_levels, n_records : int
        Distinct values, and records looked at.
    numbers : sequence of float or None
        The distinct values if all of them are numbers.
    total : float
        Sum of the numbers over the records.
    n_runs : int
        Groups of neighbouring records with the same value.
    is_rising : bool
        Whether values never fall from one record to the next.
    is_date : bool
        Whether the values are dates.
    mean_length : float
        Mean number of characters of a text.
    value_labels : tuple of str
        Labels of the values, where the file has them.
    """

    name: str
    n_levels: int
    n_records: int
    label: str = ""
    numbers: Sequence[float] | None = None
    total: float = 0.0
    n_runs: int = 0
    is_rising: bool = False
    is_date: bool = False
    mean_length: float = 0.0
    value_labels: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.numbers is not None and all(float(number).is_integer() for number in self.numbers)


@dataclass(frozen=True)
class Suggestion:
    """What a column probably is: its role in a run, what that is called, and why."""

    role: str
    what: str
    why: str


def _parts(text: str) -> list[str]:
    """The words of a name or a label, in lower case and without accents."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text) if not unicodedata.combining(c))
    return [part for part in re.split(r"[^a-z]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", plain).lower()) if part]


def _says(facts: ColumnFacts, words: Sequence[str]) -> str | None:
    """How the label or the name says one of the words: a long word may also just begin a part of it."""
    for what, text in (("label", facts.label), ("name", facts.name)):
        parts = _parts(text)
        for word in words:
            if word in parts or word == text.lower() or (len(word) > 4 and any(part.startswith(word) for part in parts)):
                shown = f"The label is “{facts.label[:60]}”" if what == "label" else f"The name says “{word}”"
                return shown
    return None


def may_number_a_part(name: str, label: str) -> bool:
    """Whether a column may be one of two that number households together: clusters, segments, and households within them."""
    facts = ColumnFacts(name, 0, 0, label)
    is_known = name.lower() in ("hh1", "hh2", "hv001", "hv002", "v001", "v002", "wm1", "wm2", "ln1", "ln2")
    return is_known or _says(facts, (*_HOUSEHOLD, *_SAMPLING, "number", "hhno", "hhnum")) is not None


def suggest_role(facts: ColumnFacts) -> Suggestion:
    """Suggest what a column is, with the reason."""
    if facts.n_levels == 0:
        return Suggestion("none", "empty", "No record has a value here.")
    if facts.n_levels == 1:
        # Everybody was as likely to be drawn.
        if (weight := _weight(facts)) is not None and weight.role == "weight":
            return weight
        return Suggestion("none", "constant", "All records have the same value, so it cannot tell records apart.")
    for judge in (_known_survey, _weight, _number_of_a_unit, _design, _secret, _identifier, _date, _text, _key):
        suggestion = judge(facts)
        if suggestion is not None:
            return suggestion
    if facts.numbers is not None and facts.n_levels > MANY_LEVELS:
        return Suggestion(
            "none", "amount", f"{facts.n_levels:,} different numbers: an amount or a measurement, too fine for a key."
        )
    if facts.n_levels > MANY_LEVELS:
        return Suggestion(
            "none", "text", f"{facts.n_levels:,} different values, and nothing says that they are known about people."
        )
    return Suggestion("none", "other", WHY_OTHER)


def _known_survey(facts: ColumnFacts) -> Suggestion | None:
    if facts.name.lower() not in _SURVEYS or facts.label:
        return None
    role, what = _SURVEYS[facts.name.lower()]
    if role == "weight" and not _can_weigh(facts):
        return None
    return Suggestion(role, what, f"{facts.name} is the name of the {what} in a well-known survey.")


def _can_weigh(facts: ColumnFacts) -> bool:
    """Whether a column could be a survey weight: numbers that are not negative and stand for more people than there are records."""
    return facts.numbers is not None and min(facts.numbers) >= 0 and facts.total >= facts.n_records


def _weight(facts: ColumnFacts) -> Suggestion | None:
    said = f"The name is “{facts.name}”" if facts.name.lower() in _WEIGHT_ALONE else _says(facts, _WEIGHT)
    if said is None or facts.numbers is None:
        return None
    if set(_parts(f"{facts.label} {facts.name}")) & set(_BODY):
        return Suggestion("none", "amount", f"{said}, the weight of a body and not of a record.")
    mean = facts.total / facts.n_records
    if min(facts.numbers) < 1 and facts.n_levels >= 5 and 0.75 <= mean <= 1.33 and min(facts.numbers) >= 0 and not facts.is_whole:
        why = f"{said}, and the values have a mean of {mean:.2g}: give the size of the population, to which they are scaled up."
        return Suggestion("weight", RELATIVE_WEIGHT, why)
    if not _can_weigh(facts) or (min(facts.numbers) < 1 and facts.total < 2 * facts.n_records):
        return Suggestion(
            "none", "amount", f"{said}, but the values add up to fewer people than there are records: not a survey weight."
        )
    if facts.n_levels < 5 and facts.total < 3 * facts.n_records:
        return None
    return Suggestion("weight", "survey weight", f"{said}, and the values add up to {facts.total:,.0f} people.")


def _number_of_a_unit(facts: ColumnFacts) -> Suggestion | None:
    """A household number: records that share it stand together."""
    size = facts.n_records / facts.n_levels
    said = _says(facts, _HOUSEHOLD)
    can_count = facts.numbers is None or facts.is_whole
    if said and can_count and facts.n_levels > facts.n_records / 20 and facts.n_levels < facts.n_records:
        share = f"{size:.1f}" if size >= 1.1 else f"{size:.2f}"
        return Suggestion("household", "household number", f"{said}, and {share} records on average share a value.")
    are_together = facts.n_runs == facts.n_levels and facts.is_rising
    if can_count and are_together and 1.2 <= size <= 8 and facts.n_levels > 30 and not facts.is_date:
        why = f"Records that share a value stand together, {size:.1f} on average, and the values rise through the file."
        return Suggestion("household", "household number", why)
    return None


def _design(facts: ColumnFacts) -> Suggestion | None:
    if (said := _says(facts, _STRATA)) and facts.n_levels <= MANY_LEVELS:
        return Suggestion("strata", "stratum", f"{said}: how the sample was drawn.")
    if said := _says(facts, _SAMPLING):
        return Suggestion(
            "none", "sampling unit", f"{said}: how the sample was drawn. It can place a record; leave it out if nobody needs it."
        )
    if (said := _says(facts, _PERSON_NUMBER)) and facts.n_levels <= 60 and facts.is_whole:
        return Suggestion("none", "person number", f"{said}: the number of a person within its household.")
    return None


def _secret(facts: ColumnFacts) -> Suggestion | None:
    said = _says(facts, _SECRET)
    if said is None:
        return None
    return Suggestion("sensitive", "sensitive", f"{said}: something an intruder would like to learn.")


def _identifier(facts: ColumnFacts) -> Suggestion | None:
    can_name = facts.numbers is None or facts.is_whole
    if (said := _says(facts, _ID)) and can_name and facts.n_levels > facts.n_records / 2:
        return Suggestion("id", "identifier", f"{said}, and nearly every record has a different value.")
    is_text = facts.numbers is None and facts.mean_length <= 40
    if facts.n_levels == facts.n_records and facts.n_records > 20 and (facts.is_whole or is_text) and not facts.is_date:
        return Suggestion("id", "identifier", "Every record has a different value.")
    return None


def _date(facts: ColumnFacts) -> Suggestion | None:
    if not facts.is_date:
        return None
    if said := _says(facts, ("birth", "born", "geburt", "naissance", "nacimiento", "death", "tod", "deces")):
        return Suggestion("key", "date", f"{said}: a date that others know. Release the month or the year of it.")
    return Suggestion(
        "none", "date", "Dates: make it a key, by month or year, if an outsider could know when something happened."
    )


def _text(facts: ColumnFacts) -> Suggestion | None:
    if facts.numbers is None and facts.mean_length > 25 and facts.n_levels > facts.n_records / 3:
        return Suggestion(
            "none", "free text", "Long texts, nearly all different: they may name people. Leave it out of what you release."
        )
    return None


def _key(facts: ColumnFacts) -> Suggestion | None:
    said = _says(facts, _KNOWN)
    if said is None:
        return None
    if facts.n_levels > MANY_LEVELS and facts.numbers is not None and not facts.is_whole:
        return Suggestion(
            "none", "amount", f"{said}, but {facts.n_levels:,} different measurements are too fine for a key. Group them first."
        )
    return Suggestion("key", "key", f"{said}: others can know it.")
