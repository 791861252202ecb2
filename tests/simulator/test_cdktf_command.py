"""The real `cdktf` command from npm on the project's app, against the embedded AWS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from terradask._provider_mirror import cli_config_in_use
from terradask_simulator import Simulator, leftovers

pytestmark = [pytest.mark.simulator, pytest.mark.slow, pytest.mark.timeout(300)]

ROOT = Path(__file__).parents[2]
CDKTF = ROOT / "tests/cdktf/node_modules/.bin/cdktf"


@pytest.fixture(scope="module")
def cdktf() -> Path:
    """The command, where it is installed."""
    if shutil.which("node") is None:
        pytest.skip("no node on PATH: install Node 20 or newer, then run make setup")
    if not CDKTF.exists():
        pytest.skip("the cdktf command is not installed: run make setup, which needs npm (or: cd tests/cdktf && npm ci)")
    return CDKTF


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """A folder as a platform team has it: the app's settings, the lock file, terradask.toml."""
    for name in ("cdktf.json", ".terraform.lock.hcl"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "terradask.toml").write_text("[cluster]\nmax_workers = 3\n")
    return tmp_path


def _environ(sim: Simulator, app: Path) -> dict[str, str]:
    environ = sim.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CHECKPOINT_DISABLE": "1",
        "DISABLE_VERSION_CHECK": "1",
        "CI": "1",
        "NO_COLOR": "1",
        # Everything that the command keeps lies in the app's folder.
        "CDKTF_HOME": str(app / ".cdktf-home"),
        "CDKTF_DISABLE_PLUGIN_CACHE_ENV": "1",
    }
    # The folder is the workspace's root here, as it is for a team.
    environ.pop("TERRADASK_STATE_DIR")
    source = cli_config_in_use(os.environ)
    if source.cli_config is not None:
        environ["TF_CLI_CONFIG_FILE"] = str(source.cli_config)
    return environ


def test_synth_diff_deploy_and_destroy_the_network(cdktf: Path, app: Path, bare_sim: Simulator) -> None:
    environ = _environ(bare_sim, app)

    def run(*arguments: str) -> str:
        done = subprocess.run(
            [str(cdktf), *arguments],
            cwd=app,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout
        return done.stdout

    # Answers that depend on the account are looked up once, by terradask; from then on the app is pure.
    subprocess.run([sys.executable, "-m", "terradask", "synth"], cwd=app, env=environ, check=True, capture_output=True)

    run("synth")
    folder = app / "cdktf.out/stacks/network"
    synthesised = json.loads((folder / "cdk.tf.json").read_text())
    assert synthesised["resource"]["aws_vpc"]
    locked = (folder / ".terraform.lock.hcl").read_bytes()
    assert locked == (ROOT / ".terraform.lock.hcl").read_bytes()

    assert "aws_vpc" in run("diff", "network", "--skip-provider-lock")
    run("deploy", "network", "--auto-approve", "--skip-provider-lock")
    with bare_sim.applied():
        assert any(line.startswith("vpc ") for line in leftovers("default"))
    assert (folder / ".terraform.lock.hcl").read_bytes() == locked

    # What the command deployed is what terradask finds.
    plan = subprocess.run(
        [sys.executable, "-m", "terradask", "plan", "--json"], cwd=app, env=environ, check=True, capture_output=True, text=True
    )
    assert sum(json.loads(plan.stdout)["counts"].values()) == 0

    run("destroy", "network", "--auto-approve", "--skip-provider-lock")
    with bare_sim.applied():
        assert leftovers("default") == []
