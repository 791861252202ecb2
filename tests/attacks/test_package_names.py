"""An attacker puts a package into the index under a name that a team uses for its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask._deployments.deployment import Deployment
from terradask._deployments.software import lock_software
from terradask.errors import SoftwareNotFromIndex
from terradask_host.agent.environment import build_environment
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_host.errors import EnvironmentFailed

from ..package_index import publish, serving
from ..source_packages import install, source_folder
from ..waiting import PROCESS_SECONDS

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The index of the hosts, with the attacker's package in the team's version."""
    publish(tmp_path / "index", "acme-tools", "1.0", body="raise SystemExit('attacked')")
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
        yield url


def host_builds(tmp_path: Path, line: str) -> Path:
    return build_environment(
        Paths(tmp_path / "host"),
        PYTHON,
        line,
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
    )


@pytest.mark.simulator
def test_nothing_is_made_with_a_package_of_ones_own(sim_environ, index, site, tmp_path) -> None:
    install(site, "--editable", str(source_folder(tmp_path / "sources")))
    with pytest.raises(SoftwareNotFromIndex) as caught:
        Cluster("confused", n_workers=1, software=["acme-tools"])
    assert list(caught.value.origins) == ["acme-tools"]
    workspace = Workspace.load()
    assert not Deployment(workspace.aws, workspace.bucket, "confused").objects.names()


def test_a_host_would_install_the_attackers(index, site, tmp_path) -> None:
    """Prove the attack: a name and a version are all that a host has."""
    install(site, str(source_folder(tmp_path / "sources")))
    with pytest.raises(SoftwareNotFromIndex):
        lock_software(["acme-tools"])
    python = host_builds(tmp_path, "acme-tools==1.0\n")
    done = subprocess.run([python, "-c", "import acme_tools"], capture_output=True, check=False)
    assert b"attacked" in done.stderr


def test_a_package_of_a_private_channel_needs_the_hashes_that_refuse_the_attackers(
    index, site, tmp_path
) -> None:
    digest = publish(tmp_path / "own", "acme-tools", "1.0")
    with serving(tmp_path / "own") as own:
        install(site, "--default-index", own, "acme-tools")
    (record,) = site.glob("*.dist-info/INSTALLER")
    record.write_text("conda\n")
    with pytest.raises(SoftwareNotFromIndex):
        lock_software(["acme-tools"])
    lock_file = tmp_path / "requirements.txt"
    others = (ROOT / "requirements/dev.lock").read_text()
    lock_file.write_text(f"{others}\nacme-tools==1.0 --hash=sha256:{digest}\n")
    lock = lock_software(["acme-tools"], lock_file=lock_file)
    (line,) = [one for one in lock.to_requirements().splitlines() if one.startswith("acme-tools")]
    with pytest.raises(EnvironmentFailed, match=r"Hash mismatch for `acme-tools==1\.0`"):
        host_builds(tmp_path, line)
