"""What an ``environment.yml`` says: channels, packages of conda, and requirements for pip."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from terradask._software.refused import file_refused
from terradask._software.software_file import unreadable

#: What conda and conda-lock know; of a prefix and a name hosts need nothing.
_KEYS = ("name", "channels", "dependencies", "platforms", "prefix")
_SHAPE = "names of channels and dependencies, such as channels: [conda-forge]"


@dataclass(frozen=True)
class CondaFile:
    """What the file says."""

    channels: tuple[str, ...]
    #: Each as conda's match specification.
    dependencies: tuple[str, ...]
    #: Lines of a requirements file.
    pip: tuple[str, ...] = ()


def read_conda_file(path: Path, subdir: str) -> CondaFile:
    """Read the file, for hosts of this subdirectory of channels. Raises `SoftwareUnusable`."""
    document = _parsed(path)
    unknown = sorted(str(key) for key in document if key not in _KEYS)
    if "variables" in unknown:
        raise file_refused(
            path,
            "it has `variables`, which hosts don't read",
            advice="move them to `environ` of the cluster",
        )
    if unknown:
        raise file_refused(path, f"it has {', '.join(unknown)}, and may have {', '.join(_KEYS)}")
    platforms = _texts(path, document, "platforms")
    if platforms and subdir not in platforms:
        raise file_refused(path, f"it is for {', '.join(platforms)}, and hosts are {subdir}")
    channels = _texts(path, document, "channels")
    if not channels:
        raise file_refused(
            path,
            "it names no channels, and those that are configured here hosts don't know",
            advice="write them into it, such as channels: [conda-forge]",
        )
    return CondaFile(channels, *_dependencies(path, document))


def _parsed(path: Path) -> Mapping[Any, Any]:
    import yaml  # type: ignore[import-untyped]  # PyYAML carries no types

    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise unreadable(path, error) from error
    except yaml.YAMLError as error:
        # Its own text repeats lines, which may have credentials.
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f" in line {mark.line + 1}"
        raise file_refused(path, f"it is no YAML{where}") from None
    if document is None:
        raise file_refused(path, "it is empty", advice=f"write {_SHAPE}")
    if not isinstance(document, dict):
        raise file_refused(path, f"it has no {_SHAPE}")
    return document


def _texts(path: Path, document: Mapping[Any, Any], key: str) -> tuple[str, ...]:
    found = document.get(key) or ()
    if not isinstance(found, list | tuple) or not all(isinstance(each, str) for each in found):
        raise file_refused(path, f"its {key} are no list of texts")
    return tuple(each.strip() for each in found)


def _dependencies(
    path: Path, document: Mapping[Any, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    entries = document.get("dependencies")
    if not isinstance(entries, list) or not entries:
        raise file_refused(path, "it has no list of dependencies")
    conda: list[str] = []
    pip: list[str] = []
    for entry in entries:
        if isinstance(entry, str) and entry.strip():
            conda.append(entry.strip())
        elif isinstance(entry, dict) and list(entry) == ["pip"]:
            pip += _texts(path, entry, "pip")
        else:
            raise file_refused(
                path,
                f"its dependencies have {entry!r}, which is neither a package nor pip's list",
                advice="write each as a text, such as - numpy>=2, and those of pip as - pip: [...]",
            )
    return tuple(conda), tuple(pip)
