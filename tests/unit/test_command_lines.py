"""Terraform's command lines, with and without python-terraform."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import Any

import pytest

from terradask._terraform import terraform
from terradask._terraform.terraform import FLAG, command_line, plain_command_line

#: The calls in the source that make a line, and a value for each expression that isn't a literal.
_CALLS = {"_stream", "_capture", "_lock_state", "_lock_state_or_init", "command_line"}
_VALUES: dict[str, list[Any]] = {
    "FLAG": [FLAG],
    "str(out)": ["/a folder/x y.tfplan"],
    "f'{seconds}s'": ["0s", "10s"],
    "_PARALLELISM": [30],
}


def _every_option() -> dict[str, list[Any]]:
    """Return the options that `Terraform` gives to any verb, each with its values."""
    found: dict[str, list[Any]] = {}
    for node in ast.walk(ast.parse(Path(terraform.__file__).read_text())):
        pairs: list[tuple[str, ast.expr]] = []
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CALLS:
            pairs = [(one.arg, one.value) for one in node.keywords if one.arg]
        elif isinstance(node, ast.AnnAssign) and getattr(node.target, "id", "") == "options":
            assert isinstance(node.value, ast.Dict)
            items = zip(node.value.keys, node.value.values, strict=True)
            pairs = [(ast.literal_eval(key), value) for key, value in items if key is not None]
        elif (
            isinstance(node, ast.Assign)
            and isinstance(target := node.targets[0], ast.Subscript)
            and getattr(target.value, "id", "") == "options"
        ):
            pairs = [(ast.literal_eval(target.slice), node.value)]
        for name, value in pairs:
            text = ast.unparse(value)
            values = [ast.literal_eval(text)] if isinstance(value, ast.Constant) else _VALUES[text]
            found.setdefault(name, []).extend(values)
    return found


def test_each_option_is_written_as_python_terraform_does() -> None:
    options = _every_option()
    assert {"json", "out", "destroy", "refresh", "lock_timeout", "reconfigure", "force"} <= set(
        options
    )
    import python_terraform  # noqa: F401  # else both lines would be the plain one

    for verb in ("init", "plan", "apply", "show", "force-unlock"):
        for arguments in ((), ("/a folder/x y.tfplan",), ("one", "-two")):
            every = [{name: value} for name, values in options.items() for value in values]
            together = {name: values[0] for name, values in options.items()}
            for given in ({}, together, *every, {"refresh": True}):
                assert plain_command_line(verb, arguments, given) == command_line(
                    verb, arguments, given
                )


def test_without_python_terraform_lines_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"lock_timeout": "10s", "refresh": False, "json": FLAG}
    monkeypatch.setitem(sys.modules, "python_terraform", None)
    line = command_line("plan", ["x"], given)
    assert line == ["plan", "-lock-timeout=10s", "-refresh=false", "-json", "x"]
