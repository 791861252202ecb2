"""Lines of requirements files without a package's name: ``-e .``, ``./lib``, ``git+URL``, of which
uv knows the name.

By its name alone uv can be told to build a package and no other.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement

from terradask._software.resolver import Resolver

_EDITABLE = re.compile(r"(?:-e|--editable)(?:\s+|=)")
#: The end of a wheel's URL: its name is in it, and nothing is to be built.
WHEEL = re.compile(r"\.whl(?=$|[\s;#\"'])")
_PARTS = re.compile(r"(?P<place>\S+?)(?P<extras>\[[^]\s]*\])?(?P<rest>\s+(?:;|--).*)?", re.DOTALL)
_EXTRAS_OF_EGG = re.compile(r"[#&]egg=[^&\[]+(\[[^]&]*\])")


def is_unnamed(line: str) -> bool:
    """Return whether a line is a requirement without its package's name, and of no wheel."""
    if line.startswith("-") and not _EDITABLE.match(line):
        return False
    try:
        Requirement(re.split(r"\s+--", line)[0])
    except InvalidRequirement:
        return not WHEEL.search(line)
    return False


def named_lines(lines: Sequence[str], resolve: Resolver) -> dict[str, str]:
    """Return the package that each of these lines without a name is, and the line with it.

    What they name is built where its build alone knows that. A line that isn't for hosts is none.
    Raises as `resolve` does.
    """
    found: dict[str, str] = {}
    for line in lines:
        bare = _EDITABLE.sub("", line)
        with tempfile.TemporaryDirectory(prefix="terradask-") as made:
            listed = Path(made, "requirements.txt")
            listed.write_text(f"{bare}\n", encoding="utf-8")
            every = resolve.alone(listed)
        for one in every:
            found[line] = _with_name(bare, one.name)
    return found


def _with_name(line: str, name: str) -> str:
    parts = _PARTS.fullmatch(line)
    if parts is None:
        return f"{name} @ {line}"
    egg = _EXTRAS_OF_EGG.search(line)
    extras = parts["extras"] or (egg[1] if egg else "")
    return f"{name}{extras} @ {parts['place']}{parts['rest'] or ''}"
