"""Only the engines know which engine holds the data: everybody else asks a source what it can do."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import rarecell

PACKAGE = Path(rarecell.__file__).parent
SPARK = re.compile("spark", re.IGNORECASE)

ALLOWED = {"spark_table"}
"""The option that names a table of Spark; it is read, stored and shown like other options."""

ASKING = {"isinstance", "issubclass", "type"}
SOURCES = re.compile(r"\w+Source")


def told_apart(source: str) -> Iterator[str]:
    """Names of Spark, of its modules and of single source classes that a module uses; texts and docstrings do not count."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                found = [alias.name for alias in names]
            case ast.ImportFrom(module=module, names=names):
                found = [module or "", *(alias.name for alias in names)]
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.arg(arg=name) | ast.keyword(arg=str(name)):
                found = [name]
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found = [name]
            case _:
                found = []
        yield from (name for name in found if SPARK.search(name) and name not in ALLOWED)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ASKING:
            yield from (
                inner.id
                for argument in node.args
                for inner in ast.walk(argument)
                if isinstance(inner, ast.Name) and SOURCES.fullmatch(inner.id)
            )


OUTSIDE = [path for path in sorted(PACKAGE.rglob("*.py")) if path.relative_to(PACKAGE).parts[0] != "engine"]


@pytest.mark.parametrize("path", OUTSIDE, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_nobody_outside_the_engines_asks_which_engine_it_is(path: Path) -> None:
    assert not list(told_apart(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "source",
    [
        "from rarecell.engine.spark.source import SparkSource",
        "def f(data):\n    import pyspark.sql",
        "def f(data):\n    return data.spark is None",
        "def f(source):\n    return isinstance(source, (ParquetSource, str))",
        "def f(frame, is_spark): ...",
    ],
)
def test_asking_is_found(source: str) -> None:
    assert list(told_apart(source))


def test_the_option_and_sentences_are_not_asking() -> None:
    assert not list(told_apart('def f(config):\n    """Data of Spark."""\n    return config.spark_table or "Spark"'))
