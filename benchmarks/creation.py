"""Creating a cluster and starting a stopped one, compared with Terraform alone and with
LocalCluster, from the call to the first result.
"""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks._measure import Row, Verdict, in_turn, seconds_of
from terradask._terraform.provider_mirror import cli_config_in_use
from terradask_simulator import Simulator

_LOCAL = """
import json, time
from distributed import Client, LocalCluster
if __name__ == "__main__":
    started = time.perf_counter()
    with LocalCluster(n_workers=2, threads_per_worker=4) as cluster, Client(cluster) as client:
        assert client.submit(sum, [1, 2, 3]).result() == 6
        print(json.dumps(time.perf_counter() - started), flush=True)
"""

_OURS = """
import json, time
from terradask import Cluster
started = time.perf_counter()
cluster = Cluster({name!r}, n_workers=2, max_workers={max_workers})
with cluster, cluster.get_client() as client:
    assert client.submit(sum, [1, 2, 3]).result() == 6
    seconds = time.perf_counter() - started
    assert cluster.origin == {origin!r}
print(json.dumps(seconds))
"""

_HCL = Path(__file__).with_name("by_hand.tf")


def _terraform(environ: Mapping[str, str], bucket: str, numbers: Callable[[], int]) -> float:
    """Init, plan, show and apply the same resources written by hand; return the seconds."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(_HCL, folder)
        lock = Path(__file__).parents[1] / ".terraform.lock.hcl"
        shutil.copy(lock, folder)
        name = f"hand-{numbers()}"
        env = {
            **environ,
            "TF_VAR_bucket": bucket,
            "TF_VAR_name": name,
            "TF_IN_AUTOMATION": "1",
            "CHECKPOINT_DISABLE": "1",
        }

        def run(*arguments: str) -> None:
            subprocess.run(
                ["terraform", *arguments],
                cwd=folder,
                env=env,
                check=True,
                stdout=subprocess.DEVNULL,
            )

        backend = [
            f"-backend-config=bucket={bucket}",
            f"-backend-config=key=by-hand/{name}.tfstate",
        ]
        started = time.perf_counter()
        run(
            "init",
            "-input=false",
            "-lockfile=readonly",
            "-backend-config=use_lockfile=true",
            *backend,
        )
        run("plan", "-input=false", "-out=plan")
        run("show", "-json", "plan")
        run("apply", "-input=false", "plan")
        seconds = time.perf_counter() - started
        run("destroy", "-input=false", "-auto-approve")
        return seconds


def measure(runs: int) -> tuple[list[Row], list[Verdict]]:
    """Measure on one deployed network, all candidates in turn."""
    count = itertools.count(1)
    with Simulator.start(baseline=True) as simulator:
        environ = {**os.environ, **simulator.environ}
        environ.update(_terraform_configuration(environ))
        bucket = _bucket(environ)

        def fresh() -> float:
            # Settings that were never synthesised: another limit each time.
            return seconds_of(
                _OURS.format(name="made", max_workers=100 + next(count), origin="created"), environ
            )

        def again() -> float:
            return seconds_of(_OURS.format(name="made", max_workers=99, origin="created"), environ)

        _deploy(environ)
        rows = in_turn(
            runs,
            **{
                "Cluster(n_workers=2), settings new": fresh,
                "Cluster(n_workers=2), synthesised before": again,
                "Cluster(n_workers=2), deployed and stopped": lambda: seconds_of(
                    _OURS.format(name="resting", max_workers=50, origin="started"), environ
                ),
                "terraform init, plan, show, apply of the same, by hand": lambda: _terraform(
                    environ, bucket, lambda: next(count)
                ),
                "LocalCluster(n_workers=2)": lambda: seconds_of(_LOCAL, environ),
            },
        )
        _destroy(environ)
    new, known, start, terraform, local = (row.median for row in rows.values())
    return list(rows.values()), [
        Verdict(
            "new cluster, less Terraform by hand, less LocalCluster",
            new - terraform - local,
            4,
            " s",
        ),
        Verdict("the same, settings synthesised before", known - terraform - local, 2, " s"),
        Verdict("start of a stopped cluster, less LocalCluster", start - local, 2, " s"),
    ]


def _terraform_configuration(environ: Mapping[str, str]) -> dict[str, str]:
    """Let the bare terraform find the provider where terradask's finds it."""
    config = cli_config_in_use(environ).cli_config
    return {"TF_CLI_CONFIG_FILE": str(config)} if config else {}


def _bucket(environ: Mapping[str, str]) -> str:
    code = "from terradask import Workspace; print(Workspace.load().bucket)"
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(environ), check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _deploy(environ: Mapping[str, str]) -> None:
    code = (
        "from terradask import Workspace; w = Workspace.load(); "
        'w.apply(w.plan_cluster("resting", max_workers=50))'
    )
    subprocess.run([sys.executable, "-c", code], env=dict(environ), check=True)


def _destroy(environ: Mapping[str, str]) -> None:
    code = 'from terradask import Workspace; Workspace.load().destroy_cluster("resting")'
    subprocess.run([sys.executable, "-c", code], env=dict(environ), check=True)
