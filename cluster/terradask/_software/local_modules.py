"""Build a wheel for hosts from the Python files of the working directory (`sync_local_modules`)."""

from __future__ import annotations

import importlib.metadata
import sys
from collections.abc import Container, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packaging.utils import NormalizedName, canonicalize_name

from terradask._software.local_wheels import LocalWheel
from terradask._software.package_origin import editable_folder
from terradask._software.scan import OWN
from terradask.errors import SoftwareUnusable
from terradask_host.preload.local_names import VARIABLE
from terradask_stacks.wheel_file import pure_wheel

if TYPE_CHECKING:
    from terradask_stacks.settings.software import SoftwareSettings

#: The wheel's name.
NAME = "terradask-local-modules"

_MAX_BYTES = 20_000_000
_MOST_NAMES = 100
#: Top-level names that wheels install by mistake and that are never imported.
_STRAY = frozenset(
    {"benchmark", "benchmarks", "conftest", "doc", "docs", "example", "examples", "scripts"}
    | {"setup", "test", "tests"}
)


def build_modules(folder: Path, packages: Container[str]) -> LocalWheel:
    """Return a wheel of the modules and packages in a folder, with all of their Python files.

    Raises `SoftwareUnusable` for a module with the name of one of the hosts' packages, which it
    would overwrite, and for links that lead out of the folder.
    """
    files = {path.relative_to(folder).as_posix(): path for path in _python_files(folder)}
    inside = folder.resolve()
    outside = [name for name, path in files.items() if not _is_inside(path.resolve(), inside)]
    if outside:
        raise _refused(
            folder, f"{', '.join(outside[:3])} are symbolic links that lead out of the folder"
        )
    tops = {name.partition("/")[0].removesuffix(".py") for name in files} - _STRAY
    taken = {
        top: owners
        for top, owners in sorted(_owners(inside).items())
        if top in tops and any(owner == OWN or owner in packages for owner in owners)
    }
    if taken:
        named = ", ".join(f"{top} ({', '.join(owners)})" for top, owners in taken.items())
        raise _refused(folder, f"the hosts' packages have the same names: {named}")
    size = sum(path.stat().st_size for path in files.values())
    if not files or size > _MAX_BYTES:
        why = f"{size} bytes of Python files" if files else "it has no module and no package"
        raise _refused(folder, why)
    content = {name: path.read_bytes() for name, path in files.items()}
    return LocalWheel(NAME, "0", *pure_wheel(NAME, "0", content))


def unsent_modules_variable(settings: SoftwareSettings) -> dict[str, str]:
    """Return the variable with the local modules that hosts don't get; empty if they do."""
    if settings.local_modules:
        return {}
    found = sorted({name for folder in _folders() for name in _module_names(folder)})
    return {VARIABLE: ",".join(found[:_MOST_NAMES])} if found else {}


def imported_unsent_modules(settings: SoftwareSettings) -> list[str]:
    """Return the imported local modules that hosts don't get."""
    if settings.local_modules:
        return []
    beside = {folder: set(_module_names(folder)) for folder in _folders()}
    found = {
        name
        for name, module in list(sys.modules.items())
        if "." not in name
        for folder, names in beside.items()
        if name in names and _lies_in(module, folder)
    }
    return sorted(found.difference(_installed_names(beside))) if found else []


def _folders() -> set[Path]:
    """Return the folders of local modules: the script's, and the working directory."""
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    try:
        return {Path.cwd(), *([Path(script).resolve().parent] if script else [])}
    except OSError:
        # The working directory was deleted.
        return set()


def _module_names(folder: Path) -> list[str]:
    try:
        return [
            path.stem
            for path in folder.iterdir()
            if path.stem.isidentifier()
            and (path.suffix == ".py" or (path / "__init__.py").is_file())
        ]
    except OSError:
        return []


def _lies_in(module: Any, folder: Path) -> bool:
    file = getattr(module, "__file__", None)
    if file is None:
        return False
    path = Path(file)
    return (path.parent.parent if path.stem == "__init__" else path.parent).resolve() == folder


def _installed_names(beside: Mapping[Path, Iterable[str]]) -> set[str]:
    """Return import names that hosts get otherwise: of packages and of editable ones' folders."""
    found = set(importlib.metadata.packages_distributions())
    for distribution in importlib.metadata.distributions():
        if (project := editable_folder(distribution)) is not None:
            own = project.resolve()
            found.update(*(beside[each] for each in beside if own in (each, each.parent)))
    return found


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
    """Return the installed packages by import name, without those built from this folder."""
    return {
        name: owners
        for name, packages in importlib.metadata.packages_distributions().items()
        if (
            owners := sorted(
                {canonicalize_name(p) for p in packages if not _is_built_from(folder, p)}
            )
        )
    }


def _is_built_from(folder: Path, package: str) -> bool:
    distribution = importlib.metadata.distribution(package)
    # An editable package's files lie deeper, such as in src/.
    project = editable_folder(distribution)
    if project is not None:
        return project.resolve() in (folder, folder.parent)
    return Path(str(distribution.locate_file(""))).resolve() == folder


def _refused(folder: Path, why: str) -> SoftwareUnusable:
    return SoftwareUnusable(
        "Hosts can't install the Python files of the working directory.",
        given=f"{folder}: {why}",
        allowed="modules, and folders with an __init__.py, of up to 20 MB in the folder "
        "itself, with names that no package on hosts has",
        advice="start in the folder of your modules, rename them, leave out the package "
        "whose name they have (package_sync_ignore), or make a package of them in place of "
        "local_modules",
    )
