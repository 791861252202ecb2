"""An attacker puts a package into the index under a name that a team uses for its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask._clusters.deployment import Deployment
from terradask._software.client_versions import lock_software
from terradask._software.local_wheels import build_wheel
from terradask.errors import SoftwareUnusable
from terradask_host.agent.environment import Environment
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_host.errors import EnvironmentFailed

from ..package_index import publish, serving
from ..source_packages import install, source_folder
from ..waiting import PROCESS_SECONDS

ROOT = Path(__file__).parents[2]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


@pytest.fixture
def asked() -> list[str]:
    """The paths that the index was asked for."""
    return []


@pytest.fixture
def index(tmp_path: Path, asked: list[str], monkeypatch: pytest.MonkeyPatch):
    """The index of the hosts, with the attacker's package in the team's version."""
    publish(tmp_path / "index", "acme-tools", "1.0", body="raise SystemExit('attacked')")
    with serving(tmp_path / "index", asked) as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
        yield url


def host_builds(
    tmp_path: Path, line: str, read: Callable[[str], bytes | None] = lambda _: None
) -> Path:
    return Environment(
        Paths(tmp_path / "host"),
        PYTHON,
        line,
        events=EventQueue(),
        log=[].append,
        deadline_seconds=PROCESS_SECONDS,
        read=read,
    ).build()


@pytest.mark.simulator
@pytest.mark.life
def test_hosts_get_the_package_that_is_here_and_the_index_is_not_asked(
    sim_environ, index, asked, site, tmp_path, monkeypatch
) -> None:
    """A cluster's start puts the wheel into the bucket; a host builds its environment of it."""
    folder = source_folder(tmp_path / "sources")
    (folder / "acme_tools.py").write_text("print('ours')")
    install(site, "--editable", str(folder))
    # The build backend is the one that is installed here.
    monkeypatch.setenv("UV_NO_BUILD_ISOLATION", "1")
    built = []

    def counted(*arguments):
        built.append(build_wheel(*arguments))
        return built[-1]

    monkeypatch.setattr("terradask._software.client_versions.build_wheel", counted)
    with Cluster("confused", n_workers=0, software=["acme-tools"]):
        workspace = Workspace.load()
        objects = Deployment(workspace.aws, workspace.bucket, "confused").objects
        lock = objects.read_bytes("software.lock").decode()
        (line,) = [line for line in lock.splitlines() if line.startswith("acme-tools")]
        assert line.removeprefix("acme-tools @ ") in objects.names("wheels/")
        python = host_builds(tmp_path, f"{line}\n", objects.read_bytes)
    done = subprocess.run([python, "-c", "import acme_tools"], capture_output=True, check=True)
    assert done.stdout == b"ours\n"
    assert not any("acme" in path for path in asked)
    # Not once more at the start.
    assert len(built) == 1


def test_a_host_would_install_the_attackers(index, tmp_path) -> None:
    """Prove the attack: with a name and a version alone, the index decides."""
    python = host_builds(tmp_path, "acme-tools==1.0\n")
    done = subprocess.run([python, "-c", "import acme_tools"], capture_output=True, check=False)
    assert b"attacked" in done.stderr


def test_what_has_no_wheel_for_hosts_is_not_looked_up_either(index, asked, site, tmp_path) -> None:
    install(site, str(source_folder(tmp_path / "sources")))
    (about,) = site.glob("*.dist-info/WHEEL")
    about.write_text("Wheel-Version: 1.0\nTag: cp312-cp312-macosx_11_0_arm64\n")
    with pytest.raises(SoftwareUnusable, match="macosx"):
        lock_software(["acme-tools"])
    assert not asked


def test_a_package_of_a_private_channel_needs_the_hashes_that_refuse_the_attackers(
    index, site, tmp_path
) -> None:
    digest = publish(tmp_path / "own", "acme-tools", "1.0")
    with serving(tmp_path / "own") as own:
        install(site, "--default-index", own, "acme-tools")
    (record,) = site.glob("*.dist-info/INSTALLER")
    record.write_text("conda\n")
    with pytest.raises(SoftwareUnusable, match="installed locally from elsewhere"):
        lock_software(["acme-tools"])
    lock_file = tmp_path / "requirements.txt"
    others = (ROOT / "requirements/dev.lock").read_text()
    lock_file.write_text(f"{others}\nacme-tools==1.0 --hash=sha256:{digest}\n")
    lock = lock_software(["acme-tools"], lock_file=lock_file)
    (line,) = [one for one in lock.to_requirements().splitlines() if one.startswith("acme-tools")]
    with pytest.raises(EnvironmentFailed, match=r"Hash mismatch for `acme-tools==1\.0`"):
        host_builds(tmp_path, line)
