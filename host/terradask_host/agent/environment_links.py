"""The links of a conda environment as a list: its archive has regular files only, and each host
creates the listed links.

A link's target is relative to the link's folder and inside the environment: first up, then down.
So it can't lead outside of it.
"""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

from terradask_host.errors import EnvironmentFailed

#: Stored among the environment's files.
LINKS = ".terradask-links.json"


def write_links(folder: Path) -> list[str]:
    """List an environment's links in a file. Remove and return those that lead outside."""
    links: dict[str, str] = {}
    removed: list[str] = []
    for path in sorted(folder.rglob("*")):
        if not path.is_symlink():
            continue
        name = path.relative_to(folder).as_posix()
        target = _plain_target(folder, path)
        if target is None:
            path.unlink()
            removed.append(name)
        else:
            links[name] = target
    listed = folder / LINKS
    listed.unlink(missing_ok=True)
    listed.write_text(json.dumps(links, indent=0))
    return removed


def _plain_target(folder: Path, path: Path) -> str | None:
    """Return a link's target in the list's form; None if it is outside the environment."""
    target = str(path.readlink())
    name = path.relative_to(folder)
    if _stays_inside(name, target):
        return target
    # The target may be absolute, or go down before it goes up.
    plain = os.path.normpath(path.parent / target)
    if not Path(plain).is_relative_to(folder) or os.path.realpath(plain) != os.path.realpath(path):
        return None
    return os.path.relpath(plain, path.parent)


def _stays_inside(name: Path | PurePosixPath, target: str) -> bool:
    parts = PurePosixPath(target).parts
    up = next((n for n, part in enumerate(parts) if part != ".."), len(parts))
    plain = target and not target.startswith("/") and ".." not in parts[up:]
    return bool(plain) and "\0" not in target and up < len(name.parts)


def make_links(folder: Path) -> None:
    """Create the listed links in a folder that other users can't write to.

    Raises `EnvironmentFailed` when the list can't be read, or a link isn't within the environment.
    """
    try:
        links = json.loads((folder / LINKS).read_bytes())
        if not isinstance(links, dict) or not all(isinstance(to, str) for to in links.values()):
            raise ValueError("not an object of strings")
    except (OSError, ValueError) as error:
        raise EnvironmentFailed(
            f"The environment's list of links can't be read: {error}."
        ) from error
    for name, target in links.items():
        _make(folder, name, target)


def _make(folder: Path, name: str, target: str) -> None:
    given = f"{name[:200]!r} to {target[:200]!r}"
    inside = PurePosixPath(name)
    plain = inside.parts and not inside.is_absolute() and ".." not in inside.parts
    if not plain or "\0" in name or not _stays_inside(inside, target):
        raise EnvironmentFailed(
            "The environment's list of links has one that leads out of it.",
            given=given,
            allowed="relative links inside of the environment",
        )
    path = folder / inside
    path.parent.mkdir(parents=True, exist_ok=True)
    # Below another link, the path would be resolved elsewhere.
    if path.parent.resolve() != folder.resolve() / inside.parent:
        raise EnvironmentFailed(
            "The environment's list of links has one below another link.", given=given
        )
    try:
        path.symlink_to(target)
    except FileExistsError as error:
        raise EnvironmentFailed(
            "The environment's list of links has one in place of a file.", given=given
        ) from error
