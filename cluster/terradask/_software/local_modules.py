"""The Python files of the working directory, as a wheel for hosts."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Container, Iterator
from pathlib import Path

from packaging.utils import NormalizedName, canonicalize_name

from terradask._software.local_wheels import LocalWheel, editable_folder, pack_wheel
from terradask._software.scan import OWN
from terradask.errors import LocalModulesRefused

#: The wheel's name.
NAME = "terradask-local-modules"

_MAX_BYTES = 20_000_000
_ABOUT = "terradask_local_modules-0.dist-info"
#: What wheels bring by mistake, beside their own packages: nothing imports it from them.
_STRAY = frozenset(
    {"benchmark", "benchmarks", "conftest", "doc", "docs", "example", "examples", "scripts"}
    | {"setup", "test", "tests"}
)


def build_modules(folder: Path, packages: Container[str]) -> LocalWheel:
    """Return the modules in a folder, and its packages, with all of their Python files.

    Raises `LocalModulesRefused`: for the name of one of the packages that hosts get, which it
    would overwrite, and for links that lead out of the folder.
    """
    files = {path.relative_to(folder).as_posix(): path for path in _python_files(folder)}
    inside = folder.resolve()
    outside = [name for name, path in files.items() if not _is_inside(path.resolve(), inside)]
    if outside:
        raise LocalModulesRefused(
            folder, f"{', '.join(outside[:3])} lead by symbolic links to what is no module of it"
        )
    tops = {name.partition("/")[0].removesuffix(".py") for name in files} - _STRAY
    taken = {
        top: owners
        for top, owners in sorted(_owners(inside).items())
        if top in tops and any(owner == OWN or owner in packages for owner in owners)
    }
    if taken:
        named = ", ".join(f"{top} ({', '.join(owners)})" for top, owners in taken.items())
        raise LocalModulesRefused(folder, f"packages that hosts get have the names of {named}")
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


def _is_inside(path: Path, folder: Path) -> bool:
    return path.is_relative_to(folder) and path.suffix == ".py"


def _owners(folder: Path) -> dict[str, list[NormalizedName]]:
    """Return the installed packages of each import name, without those that the folder is of."""
    return {
        name: owners
        for name, packages in importlib.metadata.packages_distributions().items()
        if (owners := sorted({canonicalize_name(p) for p in packages if not _is_of(folder, p)}))
    }


def _is_of(folder: Path, package: str) -> bool:
    distribution = importlib.metadata.distribution(package)
    # An editable package's own files lie elsewhere, such as in its src/.
    project = editable_folder(distribution)
    if project is not None:
        return project.resolve() in (folder, folder.parent)
    return Path(str(distribution.locate_file(""))).resolve() == folder
