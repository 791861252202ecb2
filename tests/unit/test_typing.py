"""What a type checker tells users of terradask: by mypy, in a folder of theirs, without its own
configuration.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ..waiting import PROCESS_SECONDS

# It takes half a minute of a processor.
pytestmark = pytest.mark.life

ROOT = Path(__file__).parents[2]

#: Beside the snippets: what their values are, and that tuples do where lists do.
_MORE = """
from typing import assert_type
from distributed import Client
from terradask import Cluster, Plan, Workspace

with Cluster() as entered:
    assert_type(entered, Cluster)
    assert_type(entered.get_client(), Client)

async def main() -> None:
    async with Cluster(asynchronous=True) as within:
        assert_type(within, Cluster)
    assert_type(await Cluster(asynchronous=True), Cluster)

Cluster(
    worker_cpu=(2, 8),
    worker_memory=("8 GiB", "16 GiB"),
    scheduler_vm_types=("m6i.large",),
    software=("pandas",),
    package_sync_ignore=("pip",),
    n_workers=(2, 8),
    timeout="5 minutes",
    custom_widget=True,
)
assert_type(Cluster.from_name("etl"), Cluster)
assert_type(Workspace.load().plan_network(), Plan)
"""


_CONFIGURATION = """
[mypy]
[mypy-dask.*,cdktf.*,jsii.*,tornado.*,boto3.*,botocore.*,types_boto3*.*,rich.*,numpy.*,pandas.*]
follow_imports = skip
"""


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> subprocess.CompletedProcess[str]:
    """Mypy's answer, with each module that it read."""
    folder = tmp_path_factory.mktemp("users")
    snippets = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert snippets
    for number, snippet in enumerate(snippets):
        (folder / f"snippet_{number}.py").write_text(snippet)
    (folder / "more.py").write_text(_MORE)
    # What others have typed is read for their sake alone.
    (folder / "mypy.ini").write_text(_CONFIGURATION)
    command = [sys.executable, "-m", "mypy", "--strict", "--verbose", "--no-incremental", "."]
    return subprocess.run(
        command,
        cwd=folder,
        env={name: value for name, value in os.environ.items() if name != "MYPYPATH"},
        capture_output=True,
        text=True,
        # Reads all packages anew.
        timeout=2 * PROCESS_SECONDS,
        check=False,
    )


def test_the_readmes_snippets_and_what_they_return_are_typed(
    checked: subprocess.CompletedProcess[str],
) -> None:
    assert checked.stdout.startswith("Success: no issues found"), checked.stdout


def test_the_frameworks_bindings_are_not_read(checked: subprocess.CompletedProcess[str]) -> None:
    """All of them take mypy more than a minute."""
    # That what is read is said at all.
    assert "terradask_modules.where" in checked.stderr
    assert "cdktf_cdktf_provider_aws" not in checked.stderr
