"""Modules, functions and lists of parameters stay small enough to be read at once.

A module has at most 400 lines and a function at most 60, its docstring not counted. A function has at most 8 parameters,
unless it is a surface: a public name of the package, the constructor of a public class, or a command.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import rarecell

PACKAGE = Path(rarecell.__file__).parent
MOST_LINES_OF_MODULE = 400
MOST_LINES_OF_FUNCTION = 60
MOST_PARAMETERS = 8


def _modules() -> Iterator[tuple[str, str]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), path.read_text(encoding="utf-8")


def _functions(source: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Functions with the names of the classes and functions they are in."""

    def within(node: ast.AST, name: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            inner = f"{name}.{child.name}" if hasattr(child, "name") and name else getattr(child, "name", name)
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
                yield inner, child
            yield from within(child, inner if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else name)

    return within(ast.parse(source), "")


def _n_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of a function without its docstring."""
    assert function.end_lineno is not None
    n_lines = function.end_lineno - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None:
        assert first.end_lineno is not None
        n_lines -= first.end_lineno - first.lineno + 1
    return n_lines


def _n_parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Parameters of a function, ``self`` and ``cls`` not counted."""
    arguments = function.args
    positional = [argument.arg for argument in arguments.posonlyargs + arguments.args]
    bound = positional[:1] in (["self"], ["cls"])
    starred = (arguments.vararg is not None) + (arguments.kwarg is not None)
    return len(positional) - bound + len(arguments.kwonlyargs) + starred


def _is_surface(module: str, name: str) -> bool:
    home = rarecell._HOME.get(name.removesuffix(".__init__"), "").replace(".", "/")
    return module in (f"{home}.py", f"{home}/__init__.py") or module.startswith("cli/")


def test_modules_are_short() -> None:
    assert not [module for module, source in _modules() if len(source.splitlines()) > MOST_LINES_OF_MODULE]


def test_functions_are_short() -> None:
    assert not [
        f"{module}:{name}"
        for module, source in _modules()
        for name, function in _functions(source)
        if _n_lines(function) > MOST_LINES_OF_FUNCTION
    ]


def test_parameters_are_few() -> None:
    assert not [
        f"{module}:{name}"
        for module, source in _modules()
        for name, function in _functions(source)
        if _n_parameters(function) > MOST_PARAMETERS and not _is_surface(module, name)
    ]


def test_sizes_are_counted() -> None:
    source = (
        "class A:\n"
        "    def b(self, c, *, d=1, **e):\n"
        '        """Two\n'
        '        lines."""\n'
        "        def f(g):\n"
        "            return g\n"
        "        return f\n"
    )
    sizes = {name: (_n_lines(function), _n_parameters(function)) for name, function in _functions(source)}
    assert sizes == {"A.b": (4, 3), "A.b.f": (2, 1)}
