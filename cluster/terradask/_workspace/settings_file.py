"""Values in a ``terradask.toml``, written without disturbing what else it says."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from terradask.errors import SettingsError


def edited(text: str, values: Mapping[tuple[str, str], Any], path: Path) -> str:
    """Return a file's text with other values by section and setting, everything else as it was.

    Raises `SettingsError`.
    """
    import tomlkit

    document: Any = tomlkit.parse(text)
    expected: dict[str, Any] = tomllib.loads(text)
    for (section, setting), value in values.items():
        if section not in document:
            document[section] = tomlkit.table()
        present = document[section].get(setting)
        document[section][setting] = (
            _tables(value) if isinstance(present, tomlkit.items.AoT) and value else value
        )
        expected.setdefault(section, {})[setting] = value
    changed = tomlkit.dumps(document)
    if not reads_as(changed, expected):
        # A table can be written in ways in which nothing can be put into it.
        raise SettingsError.of(
            where=str(path),
            problem="the change can't be written without writing the file anew",
            given={".".join(place): value for place, value in values.items()},
            advice="write it into the file by hand",
        )
    return changed


def reads_as(text: str, expected: Mapping[str, Any]) -> bool:
    """Return whether a text is valid TOML that says just this."""
    try:
        return tomllib.loads(text) == expected
    except tomllib.TOMLDecodeError:
        return False


def _tables(rules: Sequence[Mapping[str, Any]]) -> Any:
    """Return rules as they stood: each under a heading ``[[network.ingress]]``."""
    import tomlkit

    tables = tomlkit.aot()
    for rule in rules:
        table = tomlkit.table()
        table.update(rule)
        tables.append(table)
    return tables
