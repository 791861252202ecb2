"""CDKTF in an environment that terradask makes for it, from the machine's own package index: what a
light client plans, applies and destroys, after interruptions of its making.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask_host.agent.uv import find_uv
from terradask_simulator import Simulator
from terradask_stacks.synthesis_lock import locked_versions

from ..command import in_this_process
from ..light_environment import light_environment, light_variables
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[network]
cidr = "{cidr}"
zones = ["us-east-1a", "us-east-1b"]

[clusters.etl]
max_workers = 3
"""


def _needs_an_index(folder: Path) -> None:
    """Skip where uv reaches no index that has the bindings."""
    name = "cdktf-cdktf-provider-aws"
    wanted = folder / "wanted.txt"
    wanted.write_text(f"{name}=={locked_versions()[name]}\n")
    command = [find_uv(), "pip", "compile", "--quiet", "--no-deps", "--refresh", str(wanted)]
    asked = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    if asked.returncode:
        pytest.skip(
            f"no package index with {name}: name one in UV_DEFAULT_INDEX, or a folder of wheels "
            f"in UV_FIND_LINKS: {asked.stderr[-300:]}"
        )


class Client:
    """A light client in a folder, with caches of its own."""

    def __init__(self, python: Path, folder: Path, environ: dict[str, str]) -> None:
        self.folder = folder
        self.cache = folder / "cache"
        self.jsii = folder / "jsii"
        environ = {name: value for name, value in environ.items() if name != "JSII_NODE"}
        self.environ = light_variables(python, environ) | {
            "XDG_CACHE_HOME": str(self.cache),
            # Not uv's: most of the time would be the download's.
            "UV_CACHE_DIR": _uv_cache(),
            "PATH": os.pathsep.join([str(python.parent), _links(folder), os.environ["PATH"]]),
            "JSII_RUNTIME_PACKAGE_CACHE_ROOT": str(self.jsii),
            "TERRADASK_STATE_DIR": str(folder / "state"),
        }

    @property
    def environments(self) -> list[str]:
        """The names of what is in the folder of environments."""
        root = self.cache / "terradask/synthesis-environments"
        return sorted(path.name for path in root.glob("*") if path.is_dir())

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            ["terradask", *arguments],
            cwd=self.folder,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def __call__(self, *arguments: str, code: int = 0) -> str:
        with self.begin(*arguments) as process:
            output, _ = process.communicate(timeout=PROCESS_SECONDS)
        assert process.returncode == code, output
        assert "Traceback" not in output
        assert "bug" not in output
        return output

    def interrupt(self, number: int, when: Callable[[], object], *arguments: str) -> int:
        """Run a command, and end its processes as a terminal or the kernel does."""
        with self.begin(*arguments) as process:
            limit = time.monotonic() + PROCESS_SECONDS
            while not when() and process.poll() is None:
                assert time.monotonic() < limit
                time.sleep(0.005)
            assert process.poll() is None, process.stdout and process.stdout.read()
            os.killpg(process.pid, number)
            process.communicate(timeout=PROCESS_SECONDS)
        return process.returncode


def _uv_cache() -> str:
    done = subprocess.run([find_uv(), "cache", "dir"], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _links(folder: Path) -> str:
    """Return a folder with uv alone, of this environment."""
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin/uv").symlink_to(find_uv())
    return str(folder / "bin")


@pytest.fixture
def client(bare_sim: Simulator, tmp_path: Path) -> Iterator[Client]:
    _needs_an_index(tmp_path)
    python = light_environment(tmp_path / "light")
    work = tmp_path / "work"
    work.mkdir()
    made = Client(python, work, dict(bare_sim.environ))
    (work / "terradask.toml").write_text(SETTINGS.format(cidr=bare_sim.vpc_cidr))
    provider = in_this_process("doctor", "--fix", "--toolchain", environ=made.environ, folder=work)
    assert provider.returncode == 0, provider.stdout + provider.stderr
    yield made
    # Some 800 MB.
    for folder in (made.cache, made.jsii, tmp_path / "light"):
        shutil.rmtree(folder, ignore_errors=True)


def test_a_light_client_plans_applies_and_destroys_after_interruptions(
    client: Client, bare_sim: Simulator
) -> None:
    offline = dict(client.environ)
    client.environ = {**offline, "UV_OFFLINE": "1", "UV_CACHE_DIR": str(client.folder / "no-uv")}
    told = client("plan", "network", code=3)
    assert "pip install 'terradask[deploy]'" in told
    assert "TERRADASK_SYNTHESIS_PYTHON" in told
    client.environ = offline

    def is_making() -> bool:
        return any(name.startswith(".making-") for name in client.environments)

    assert client.interrupt(signal.SIGINT, is_making, "plan", "network") != 0
    assert client.environments == []
    assert client.interrupt(signal.SIGKILL, is_making, "plan", "network") == -signal.SIGKILL

    # While jsii unpacks its packages, which it does once.
    assert client.interrupt(signal.SIGINT, client.jsii.exists, "plan", "network") != 0
    assert len(client.environments) == 1
    assert "synthesise" in client("plan", "network")
    # By jsii's own worker, for which its process waits: without them, each synthesis takes twice
    # as long and a gigabyte.
    indexed = {
        path.relative_to(client.jsii).parts[0] for path in client.jsii.rglob(".jsii.runtime.*")
    }
    assert {"@cdktf", "cdktf", "constructs"} <= indexed

    written = {
        path.parent.name: path.read_bytes()
        for path in client.folder.glob("state/cdktf.out/stacks/*/cdk.tf.json")
    }
    environ = {**client.environ, "TERRADASK_SYNTHESIS_PYTHON": sys.executable}
    again = in_this_process("synth", "--out", "here", environ=environ, folder=client.folder)
    assert again.returncode == 0, again.stdout + again.stderr
    here = (client.folder / "here/stacks/network/cdk.tf.json").read_bytes()
    assert written == {"network": here}

    client("apply", "network", "--yes")
    client("plan", "etl")
    client("apply", "etl", "--yes")
    # No synthesis, and so neither environment nor index.
    shutil.rmtree(client.cache / "terradask/synthesis-environments")
    shutil.rmtree(client.cache / "terradask/synthesis")
    for name in ("etl", "network"):
        client("destroy", name, "--yes")
    assert client.environments == []
    assert '"state": "declared"' in client("list", "--json")
