"""What Python's standard library lacks on Windows, by the stubs that mypy brings (typeshed)."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import mypy

_STUBS = Path(mypy.__file__).parent / "typeshed/stdlib"


@cache
def missing_names(module: str) -> frozenset[str]:
    """Return the names that a module has on Linux and not on Windows."""
    files = _files(module)
    found, there = (
        {name for file in files for name in _defined(_tree(file).body, platform)}
        for platform in ("linux", "win32")
    )
    return frozenset(found - there)


@cache
def missing_modules() -> frozenset[str]:
    """Return the modules that have names on Linux and none on Windows."""
    found = set()
    for file in _STUBS.glob("[a-z]*.pyi"):
        here, there = (set(_own(file, platform)) for platform in ("linux", "win32"))
        if here and not there:
            found.add(file.stem)
    return frozenset(found)


def _files(module: str) -> list[Path]:
    package = _STUBS / module
    return sorted(package.glob("*.pyi")) if package.is_dir() else [_STUBS / f"{module}.pyi"]


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _own(file: Path, platform: str) -> Iterator[str]:
    """Yield the names that a file defines and doesn't import."""
    for node in _statements(_tree(file).body, platform):
        if not isinstance(node, ast.Import | ast.ImportFrom):
            yield from _bound(node)


def _defined(body: Iterable[ast.stmt], platform: str) -> Iterator[str]:
    for node in _statements(body, platform):
        yield from _bound(node)


def _statements(body: Iterable[ast.stmt], platform: str) -> Iterator[ast.stmt]:
    """Yield the statements that count on a platform."""
    for node in body:
        if isinstance(node, ast.If):
            holds = _holds(node.test, platform)
            if holds is not False:
                yield from _statements(node.body, platform)
            if holds is not True:
                yield from _statements(node.orelse, platform)
        else:
            yield node


def _bound(node: ast.stmt) -> Iterator[str]:
    match node:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            yield name
        case ast.Import(names=names) | ast.ImportFrom(names=names):
            yield from (each.asname or each.name for each in names)
        case ast.Assign(targets=targets):
            yield from (each.id for each in targets if isinstance(each, ast.Name))
        case ast.AnnAssign(target=ast.Name(id=name)):
            yield name


def _holds(test: ast.expr, platform: str) -> bool | None:
    """Return whether a stub's condition holds; None if it asks for something else."""
    match test:
        case ast.Compare(
            left=ast.Attribute(attr="platform"), ops=[op], comparators=[ast.Constant(value=named)]
        ):
            return (platform == named) == isinstance(op, ast.Eq)
        case ast.Compare(left=ast.Attribute(attr="version_info"), ops=[op], comparators=[given]):
            version = ast.literal_eval(given)
            return (sys.version_info >= version) == isinstance(op, ast.GtE)
        case ast.BoolOp(op=op, values=values):
            each = [_holds(value, platform) for value in values]
            decisive = isinstance(op, ast.Or)
            if decisive in each:
                return decisive
            return None if None in each else not decisive
    return None
