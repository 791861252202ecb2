"""The Python files of the working directory, as a wheel for hosts."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Iterator
from pathlib import Path

from terradask._software.local_wheels import LocalWheel, pack_wheel
from terradask.errors import LocalModulesRefused

#: The wheel's name.
NAME = "terradask-local-modules"

_MAX_BYTES = 20_000_000
_ABOUT = "terradask_local_modules-0.dist-info"


def build_modules(folder: Path) -> LocalWheel:
    """Return the modules in a folder, and its packages, with all of their Python files.

    Raises `LocalModulesRefused`: for a name that an installed package has, which hosts would
    overwrite.
    """
    files = {path.relative_to(folder).as_posix(): path for path in _python_files(folder)}
    tops = {name.partition("/")[0].removesuffix(".py") for name in files}
    taken = sorted(tops & _installed_names(folder))
    if taken:
        raise LocalModulesRefused(
            folder, f"installed packages have the names of {', '.join(taken)}"
        )
    size = sum(path.stat().st_size for path in files.values())
    if not files or size > _MAX_BYTES:
        why = f"{size} bytes of Python files" if files else "no module and no package in it"
        raise LocalModulesRefused(folder, why)
    content = {name: path.read_bytes() for name, path in files.items()}
    about = {
        "METADATA": f"Metadata-Version: 2.1\nName: {NAME}\nVersion: 0\n",
        "WHEEL": "Wheel-Version: 1.0\nGenerator: terradask\nRoot-Is-Purelib: true\n"
        "Tag: py3-none-any\n",
    }
    content |= {f"{_ABOUT}/{name}": text.encode() for name, text in about.items()}
    filename = f"{_ABOUT.removesuffix('.dist-info')}-py3-none-any.whl"
    return LocalWheel(NAME, "0", filename, pack_wheel(content))


def _python_files(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        if not path.stem.isidentifier():
            continue
        if path.suffix == ".py" and path.is_file():
            yield path
        elif (path / "__init__.py").is_file():
            yield from sorted(each for each in path.rglob("*.py") if each.is_file())


def _installed_names(folder: Path) -> set[str]:
    """Return the import names of installed packages, but for those that are the folder's own."""
    return {
        name
        for name, packages in importlib.metadata.packages_distributions().items()
        if any(not _is_of(folder, package) for package in packages)
    }


def _is_of(folder: Path, package: str) -> bool:
    where = Path(str(importlib.metadata.distribution(package).locate_file("")))
    return where.resolve() == folder.resolve()
