"""Which columns does the formula of a regression name, and is it only a formula?

Formulas are evaluated as Python. A configuration may come from somebody else, so a formula may use columns, numbers and a few
functions, and nothing by which other code could run.
"""

from __future__ import annotations

import ast
import io
import token
import tokenize
from collections.abc import Sequence

from rarecell.errors import BadInput, UnknownColumns

FUNCTIONS = ("C", "I", "Q", "Sum", "Treatment", "bs", "center", "cr", "scale", "standardize")
"""Functions of formulas: categories, arithmetic, odd names, contrasts, splines and scaling."""

NUMERICAL = ("abs", "exp", "log", "log10", "log1p", "log2", "maximum", "minimum", "power", "sqrt", "where")
"""Functions of NumPy, written as ``np.log(income)``."""

_NO_PLACE = ("[", "]", "{", "}", ";", "@", ":=", "!")

_LAYOUT = (token.NEWLINE, token.NL, token.ENDMARKER, tokenize.COMMENT)


def columns_of(formula: str, available: Sequence[str]) -> list[str]:
    """The columns that a formula names, in the order of the data.

    Raises
    ------
    UnknownColumns
        If it names something that is neither a column nor a function.
    BadInput
        If it is not a formula.

    Examples
    --------
    >>> columns_of("np.log(income) ~ C(sex) * age", ["age", "sex", "income", "pets"])
    ['age', 'sex', 'income']
    """
    try:
        read = [one for one in tokenize.generate_tokens(io.StringIO(formula).readline) if one.type not in _LAYOUT]
    except (tokenize.TokenError, SyntaxError) as problem:
        raise BadInput(f"The formula '{formula}' cannot be read: {problem.args[0]}.") from None
    named = set()
    for place, one in enumerate(read):
        before, after = (read[k].string if 0 <= k < len(read) else "" for k in (place - 1, place + 1))
        # Text with a prefix may hold code, as in f"{…}".
        if token.tok_name[one.type].startswith("FSTRING") or (one.type == token.STRING and one.string[0] not in "'\""):
            raise BadInput(f"The formula '{formula}' may use columns, {_listed()}, and no other code.")
        if one.type == token.NAME and one.string in available and before != ".":
            named.add(one.string)
        elif one.type == token.STRING and before == "(" and place > 1 and read[place - 2].string == "Q":
            named.add(_quoted(one.string, available))
        elif one.type == token.NAME and not _is_word(one.string, before, after):
            raise UnknownColumns.among([one.string], list(available))
        elif one.string == "." and (before != "np" or after not in NUMERICAL):
            raise BadInput(f"The formula '{formula}' may use columns, {_listed()}, and no other code.")
        elif (one.type == token.ERRORTOKEN and one.string.strip()) or (one.type == token.OP and one.string in _NO_PLACE):
            raise BadInput(f"The formula '{formula}' has {one.string}, which has no place in a formula.")
    return [name for name in available if name in named]


def _is_word(name: str, before: str, after: str) -> bool:
    """Whether a name that is not a column is a function, a function of NumPy, or the name of a function's option."""
    return (
        (name in FUNCTIONS and after in ("(", ",", ")"))
        or (name == "np" and after == ".")
        or (before == "." and name in NUMERICAL)
        or (after == "=" and before in ("(", ","))
        or name in ("True", "False")
    )


def _quoted(text: str, available: Sequence[str]) -> str:
    name = str(ast.literal_eval(text))
    if name not in available:
        raise UnknownColumns.among([name], list(available))
    return name


def _listed() -> str:
    return f"the functions {', '.join(FUNCTIONS)} and those of NumPy such as np.{NUMERICAL[2]}"
