"""The page on troubleshooting quotes what the code prints, and names commands that exist."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import click
import pytest

from terradask.cli import command as root

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/troubleshooting.md"
ANY = "…"
#: Texts of AWS and Python, with where they come from.
OTHERS = {
    "InsufficientInstanceCapacity": "AWS's code for a failed launch",
    "ModuleNotFoundError": "Python's own",
}
_ROW = re.compile(r"^\| `([^`]+)`[^|]*\|[^|]+\| (.+) \|$", re.MULTILINE)
_COMMAND = re.compile(r"`terradask ([^`]+)`")


@cache
def rows() -> list[tuple[str, str]]:
    return _ROW.findall(PAGE.read_text(encoding="utf-8"))


def literal(node: ast.expr) -> str:
    """Return a text of the code, with `ANY` for what differs."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(map(literal, node.values))
    return ANY


@cache
def texts() -> list[str]:
    """Return the texts of the client's code, without documentation."""
    return [
        literal(node)
        for path in (ROOT / "cluster").rglob("*.py")
        for node in without_docstrings(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.JoinedStr | ast.Constant)
    ]


def without_docstrings(tree: ast.Module) -> Iterator[ast.AST]:
    documentation = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    return (node for node in ast.walk(tree) if id(node) not in documentation)


def is_printed(quoted: str) -> bool:
    pattern = re.compile(".*".join(re.escape(part.strip()) for part in quoted.split(ANY)), re.S)
    return any(map(pattern.search, texts()))


def test_there_are_rows() -> None:
    table_lines = re.findall(r"^\| (?!text|---)", PAGE.read_text(), re.MULTILINE)
    assert len(rows()) == len(table_lines) > 30


@pytest.mark.parametrize("quoted", [quoted for quoted, _ in rows() if quoted not in OTHERS])
def test_a_quoted_text_is_the_codes(quoted: str) -> None:
    assert is_printed(quoted)


def test_another_text_is_found_out() -> None:
    assert not is_printed("the network of this workspace isn't there")
    # Documentation alone isn't printed.
    assert not is_printed("A problem with one cluster.")


def test_its_commands_exist() -> None:
    named = _COMMAND.findall(PAGE.read_text(encoding="utf-8"))
    assert len(named) > 30
    context = click.Context(root)
    for line in named:
        verb, *rest = line.split()
        command = root.get_command(context, verb)
        assert command is not None, line
        options = {option for one in command.params for option in one.opts}
        assert {word for word in rest if word.startswith("--")} <= options, line
