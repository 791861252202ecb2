"""The real `cdktf` command from npm on the project's app, against the embedded AWS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from terradask._terraform.provider_mirror import cli_config_in_use
from terradask_simulator import Simulator

from ..command import in_this_process
from ..left_over import leftovers
from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ROOT = Path(__file__).parents[2]
CDKTF = ROOT / "tests/cdktf/node_modules/.bin/cdktf"


@pytest.fixture(scope="module")
def cdktf() -> Path:
    """The command, where it is installed."""
    if shutil.which("node") is None:
        pytest.skip("no node on PATH: install Node 20 or newer, then run make setup")
    if not CDKTF.exists():
        pytest.skip(
            "the cdktf command is not installed: run make setup, which needs npm (or: cd "
            "tests/cdktf && npm ci)"
        )
    return CDKTF


@pytest.fixture
def app(quick_provider: QuickProvider, tmp_path: Path) -> Path:
    """A folder as a platform team has it: the app's settings, the lock file, terradask.toml."""
    shutil.copy(ROOT / "cdktf.json", tmp_path)
    quick_provider.lock(tmp_path)
    return tmp_path


SETTINGS = """
[network]
cidr = "{cidr}"
zones = ["us-east-1a", "us-east-1b"]
ingress = [{{ cidr = "127.0.0.0/8" }}]

[clusters.etl]
max_workers = {max_workers}
n_workers = 1
"""

#: Run as users run them; `test_checkov.py` and `test_pipelines.py` do it with the others.
AS_PROCESSES = {"list"}

ATTACH = """
from terradask import Cluster
with Cluster(name="etl") as cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
    print(cluster.shutdown_on_close)
"""


def stacks(app: Path) -> dict[str, bytes]:
    """Return each stack's configuration."""
    return {
        path.parent.name: path.read_bytes()
        for path in (app / "cdktf.out/stacks").glob("*/cdk.tf.json")
    }


def _environ(sim: Simulator, app: Path) -> dict[str, str]:
    environ = sim.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "CHECKPOINT_DISABLE": "1",
        "DISABLE_VERSION_CHECK": "1",
        "CI": "1",
        "NO_COLOR": "1",
        # As terradask runs Terraform: it takes less time.
        "GOGC": "400",
        # Everything that the command keeps lies in the app's folder.
        "CDKTF_HOME": str(app / ".cdktf-home"),
        "CDKTF_DISABLE_PLUGIN_CACHE_ENV": "1",
    }
    # The folder is the workspace's root here, as it is for a team.
    environ.pop("TERRADASK_STATE_DIR")
    source = cli_config_in_use(environ)
    if source.cli_config is not None:
        environ["TF_CLI_CONFIG_FILE"] = str(source.cli_config)
    return environ


def test_deploy_by_one_change_by_the_other_attach_from_python_destroy(
    cdktf: Path, app: Path, bare_sim: Simulator
) -> None:
    environ = _environ(bare_sim, app)
    settings = app / "terradask.toml"
    settings.write_text(SETTINGS.format(cidr=bare_sim.vpc_cidr, max_workers=3))

    def run(*command: str | Path) -> str:
        done = subprocess.run(
            [str(part) for part in command],
            cwd=app,
            env=environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def terradask(*arguments: str) -> str:
        if arguments[0] in AS_PROCESSES:
            return run(sys.executable, "-m", "terradask", *arguments)
        done = in_this_process(*arguments, environ=environ, folder=app)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    # Answers that depend on the account are looked up once, by terradask; from then on the app is
    # pure.
    terradask("synth")
    written = stacks(app)
    shutil.rmtree(app / "cdktf.out")

    # Terraform needs its state's bucket first.
    terradask("init", "--state", "s3")
    # The first time alone: the state of the cluster lies in the network's bucket.
    run(cdktf, "deploy", "network", "--auto-approve", "--skip-provider-lock")
    # The command writes what terradask writes.
    assert stacks(app) == written
    folder = app / "cdktf.out/stacks/network"
    backend = json.loads(written["network"])["terraform"]["backend"]
    assert backend["s3"]["bucket"] == "terradask-state-123456789012-us-east-1"
    locked = (folder / ".terraform.lock.hcl").read_bytes()
    assert locked == (app / ".terraform.lock.hcl").read_bytes()
    with bare_sim.applied():
        assert any(line.startswith("vpc ") for line in leftovers("default"))

    run(cdktf, "deploy", "network", "etl", "--auto-approve", "--skip-provider-lock")
    (listed,) = json.loads(terradask("list", "--json"))
    assert (listed["name"], listed["state"]) == ("etl", "stopped")

    # Changed by terradask: what the command deployed is what terradask finds, and one number is the
    # whole change.
    settings.write_text(SETTINGS.format(cidr=bare_sim.vpc_cidr, max_workers=5))
    planned = json.loads(terradask("apply", "etl", "--yes", "--json"))
    assert planned["counts"] == {"create": 0, "update": 2, "replace": 0, "delete": 0, "imports": 0}
    changed = {
        a["path"]
        for change in planned["changes"]
        for a in change["attributes"]
        if change["type"] == "aws_autoscaling_group"
    }
    assert changed == {"max_size"}

    # A declared cluster is stopped when it is left, and not destroyed.
    assert run(sys.executable, "-c", ATTACH).splitlines()[-1] == "True"
    (listed,) = json.loads(terradask("list", "--json"))
    assert (listed["state"], listed["groups"]["workers"]["max_size"]) == ("stopped", 5)

    run(cdktf, "destroy", "network", "etl", "--auto-approve", "--skip-provider-lock")
    with bare_sim.applied():
        assert leftovers("default") == []
