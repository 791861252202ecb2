"""Which index a uv project takes a package from: ``[tool.uv.sources]``.

Others may have another author's package under the name:
https://docs.astral.sh/uv/concepts/indexes/#pinning-a-package-to-an-index
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from packaging.markers import InvalidMarker, Marker
from packaging.utils import canonicalize_name

from terradask._software.configured import Machine
from terradask._software.indexes import Index, Indexes
from terradask._software.refused import index_settings_refused


def index_sources(
    indexes: Indexes, machine: Machine, markers: Mapping[str, str]
) -> dict[str, Index]:
    """Return the index of each package that the project in the working directory, or one above it,
    takes from a certain one.

    Raises `SoftwareUnusable`.
    """
    by_name = {index.name: index for index in indexes.every if index.name is not None}
    found: dict[str, Index] = {}
    for folder in (machine.folder, *machine.folder.parents):
        path = folder / "pyproject.toml"
        for name, source in _sources(path).items():
            index = _index_name(source, markers)
            if index is None or canonicalize_name(name) in found:
                continue
            if index not in by_name:
                raise index_settings_refused(str(path), f"no index has the name {index!r}")
            found[canonicalize_name(name)] = by_name[index]
    return found


def _sources(path: Path) -> Mapping[str, Any]:
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        sources = document.get("tool", {}).get("uv", {}).get("sources", {})
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, AttributeError) as error:
        raise index_settings_refused(str(path), type(error).__name__) from None
    return sources if isinstance(sources, dict) else {}


def _index_name(source: Any, markers: Mapping[str, str]) -> str | None:
    """Return the index of the source that holds on hosts."""
    every: Iterable[Any] = source if isinstance(source, list) else [source]
    for each in every:
        if isinstance(each, dict) and "index" in each and _holds(each.get("marker"), markers):
            return str(each["index"])
    return None


def _holds(marker: object, markers: Mapping[str, str]) -> bool:
    try:
        return marker is None or Marker(str(marker)).evaluate(dict(markers))
    except InvalidMarker:
        return False
