"""The links of a conda environment, as data: its archive has regular files alone, and each host
makes the links that this lists.

A link leads to a path inside of the environment, relative to its own folder: up first, then down.
So whatever it passes stays inside, and the list can't lead a host elsewhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path, PurePosixPath

from terradask_host.errors import EnvironmentFailed

#: Beside the files of the environment.
LINKS = ".terradask-links.json"


def write_links(folder: Path) -> list[str]:
    """List the links of an environment in a file of its own. Return those that lead out of it,
    which are removed: no other host could have them.
    """
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
    """Return where a link leads, as the list has it; None if that is out of the environment."""
    target = str(path.readlink())
    name = path.relative_to(folder)
    if _stays_inside(name, target):
        return target
    # It may be a whole path, or go down before it goes up.
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
    """Make the links that the file lists, in a folder that others can't write to.

    Raises
    ------
    EnvironmentFailed
        When the list can't be read, or a link isn't one of an environment's own.
    """
    try:
        links = json.loads((folder / LINKS).read_bytes())
        if not isinstance(links, dict) or not all(isinstance(to, str) for to in links.values()):
            raise ValueError("no object of texts")
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
    # Below another link, it would be elsewhere than it says.
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
