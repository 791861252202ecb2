"""Run the main job step by step on an embedded AWS, with times, and fail at a broken promise."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from terradask._aws.answers import unless
from terradask._aws.listing import listed_zones
from terradask._common.clock import age_text
from terradask._common.colour import painted
from terradask._common.polling import wait_until
from terradask._common.progress import (
    Message,
    PhaseFinished,
    PhaseStarted,
    ProgressEvent,
    ResourceChanged,
    Warned,
)
from terradask._doctor.account_check.network import leftovers, remove_cluster, remove_network
from terradask._doctor.account_check.steps import Runner, Step, StepResult
from terradask._synthesis.configuration import begin_synthesis
from terradask_host.words import host_word
from terradask_modules.errors import InvalidInput, TerradaskError
from terradask_simulator.demo import data
from terradask_simulator.demo.toolchain import SOFTWARE, find_toolchain


class DemoFailed(TerradaskError):
    """A step of the demo broke its promise."""

    def __init__(self, step: str, *, promised: str, found: Any) -> None:
        super().__init__(
            f"the demo's step {step!r} was not as promised: {promised}",
            given=found,
            advice="run it again with: terradask --debug demo",
        )
        self.step = step
        self.promised = promised
        self.found = found


class DemoPrinter:
    """Print the demo's steps, checks and progress."""

    def __init__(self, write: Callable[[str], None], now: Callable[[str], object] = str) -> None:
        self._write = write
        self._now = now
        self._began = time.monotonic()
        self._number = 0
        self._title = ""
        self._has_failed = False

    @property
    def seconds(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def started(self, step: Step) -> None:
        """Print a step's title."""
        self._number += 1
        self._title = step.what
        self._write("")
        self._write(painted(f"{self._number}. {step.what}", bold=True))

    def ended(self, result: StepResult) -> None:
        """Print a step's duration; errors after the first are only printed."""
        if result.cause is None:
            took, spent = (age_text(each, tenths=True) for each in (result.seconds, self.seconds))
            self._write(painted(f"   {took}; {spent} since the start", dim=True))
        elif self._has_failed:
            self.show(f"while removing everything: {result.cause}")
        self._has_failed = self._has_failed or result.cause is not None

    def show(self, text: str) -> None:
        """Print a text, indented."""
        for line in text.splitlines():
            self._write(f"   {line}".rstrip())

    def end(self, text: str) -> None:
        """Print the end."""
        self._write("")
        self._write(painted(text, bold=True))

    def check(self, promise: str, kept: bool, found: Any = None) -> None:
        """Print a kept promise. Raises `DemoFailed` for a broken one."""
        if not kept:
            raise DemoFailed(self._title, promised=promise, found=found)
        self._write(f"   {painted('ok', fg='green')} {promise}")

    def progress(self, event: ProgressEvent) -> None:
        """Print finished phases of a long operation, and its current phase on the moving line."""
        match event:
            case PhaseStarted(phase, subject):
                self._now(f"{subject}: {phase}")
            case ResourceChanged(subject, address, action, _, done, total):
                self._now(f"{subject}: {done}/{total} {action} {address}")
            case PhaseFinished(phase, subject, seconds, False):
                self._now("")
                self._write(
                    painted(f"   {subject}: {phase} {age_text(seconds, tenths=True)}", dim=True)
                )
            case Message(text):
                self._write(painted(f"   {text}", dim=True))
            case Warned(text):
                self._write(f"   warning: {text}")
            case _:
                pass


# ---- the main job --------------------------------------------------------------------------------


CLUSTER = "demo"
FEW, MANY = 2, 5
SEED = 20_260_101
_SECOND_PROCESS_SECONDS = 60
_IMPORTED_LATER = "distributed, distributed.dashboard.scheduler, dask.dataframe, pyarrow, s3fs"

_SETTINGS = """\
[network]
zones = {zones}
data_buckets = ["{bucket}"]

[cluster]
max_workers = 10
worker_vm_types = ["m6i.large"]
scheduler_vm_types = ["m6i.large"]
software = {software}
"""

#: Role -> bucket/key -> action -> number of calls; callers other than hosts are "".
Calls = Callable[[], dict[str, dict[str, dict[str, int]]]]


@dataclass
class MainJob:
    """The main job in an empty workspace."""

    #: The output.
    printer: DemoPrinter
    #: Path of ``terradask.toml``.
    folder: Path
    #: Returns the calls of each role.
    calls: Calls
    bucket: str = field(default_factory=lambda: f"weather-{uuid.uuid4().hex[:12]}")
    _plan: Any = None
    _cluster: Any = None
    _client: Any = None
    _kept: list[Any] = field(default_factory=list)
    _fingerprints: list[str] = field(default_factory=list)

    @property
    def settings(self) -> Path:
        """The path of the settings file."""
        return self.folder / "terradask.toml"

    def run(self) -> None:
        """Run all steps. Raises `DemoFailed`."""
        import boto3

        # Two zones, as in a careful first setup: every zone costs subnets, routes and time.
        zones = listed_zones(boto3.client("ec2"))[:2]
        text = _SETTINGS.format(
            bucket=self.bucket, zones=json.dumps(zones), software=json.dumps(SOFTWARE)
        )
        self.settings.write_text(text, encoding="utf-8")
        runner = Runner(self.printer.started, self.printer.ended)
        what = "Destroy the cluster and the network, and check for leftovers"
        removal = [Step("removal", what, self._remove)]
        runner.run_and_remove(self.steps(), removal, before_removal=[self._leave])
        if runner.failed is not None and runner.failed.cause is not None:
            raise runner.failed.cause

    def steps(self) -> list[Step]:
        """Return the steps that create and use resources."""
        start = f"Start it and attach: Cluster(name={CLUSTER!r}, n_workers={FEW})"
        scale = f"Scale {FEW} -> {MANY} -> {FEW} without losing a result"
        compute = "Compute something real: a group-by over Parquet files in a bucket"
        network = "Deploy the network: the baseline that clusters share"
        again = "Attach a second time, by name, from another process"
        return [
            Step("network", network, self._deploy_network),
            Step("plan", f"Plan the cluster {CLUSTER!r}, and show the plan", self._plan_cluster),
            Step("apply", "Apply exactly that plan", self._apply_cluster),
            Step("cluster", start, self._attach),
            Step("result", compute, self._compute),
            Step("scale", scale, self._scale),
            Step("attach", again, self._attach_again),
            Step("close", "Close: hosts to zero", self._close),
        ]

    def workspace(self) -> Any:
        """Return the workspace of the settings."""
        from terradask._workspace.workspace import Workspace

        return Workspace.load(self.settings, progress=self.printer.progress)

    # ---- structure -------------------------------------------------------------------------------

    def _deploy_network(self, _result: StepResult) -> None:
        workspace = self.workspace()
        plan = workspace.plan_network()
        self.printer.show(
            f"the plan: {plan.plan_file.add} resources to create, none to change or to destroy"
        )
        with _compiling_meanwhile():
            workspace.apply(plan)
        baseline = workspace.baseline()
        self.printer.show(
            f"{baseline.vpc_id} ({baseline.vpc_cidr}) in {len(baseline.zones)} zones of "
            f"{baseline.region}"
        )

    def _plan_cluster(self, _result: StepResult) -> None:
        from terradask._plans.render_terminal import to_text

        self._plan = self.workspace().plan_cluster(CLUSTER)
        self.printer.show(to_text(self._plan.summary, details=False))
        self.printer.check(
            "nothing is there before it is applied", self.workspace().deployments() == []
        )

    def _apply_cluster(self, _result: StepResult) -> None:
        workspace = self.workspace()
        workspace.apply(self._plan)
        status = workspace.deployment(CLUSTER).status()
        self.printer.check(
            "deployed means stopped: no host runs yet", status.state == "stopped", status.as_dict()
        )

    # ---- the cluster at work ---------------------------------------------------------------------

    def _attach(self, _result: StepResult) -> None:
        from terradask import Cluster

        self._cluster = cluster = Cluster(
            name=CLUSTER,
            n_workers=FEW,
            wait_for_workers=True,
            settings=self.settings,
            progress=self.printer.progress,
        )
        self.printer.show(f"scheduler {cluster.scheduler_address}")
        self.printer.show(f"dashboard {cluster.dashboard_link}")
        self.printer.check(
            "the scheduler speaks TLS alone", cluster.scheduler_address.startswith("tls://")
        )
        hosts = self.workspace().deployment(CLUSTER).status().hosts
        for host in hosts:
            self.printer.show(
                f"{host.instance_id}  {host.role:<9}  {host_word(host.state):<10}  "
                f"{host.private_address}"
            )
        self._client = cluster.get_client()

    def _compute(self, _result: StepResult) -> None:
        import boto3
        import dask.dataframe as dd

        s3: Any = boto3.client("s3")
        s3.create_bucket(Bucket=self.bucket)
        frame = data.weather(SEED)
        size = data.write(frame, self.bucket)
        self.printer.show(
            f"wrote {len(frame):,} rows as {data.FILES} files, {size / 1e6:.1f} MB, to "
            f"s3://{self.bucket}"
        )
        before = self._reads()
        lazy = data.station_means(dd.read_parquet(f"s3://{self.bucket}/weather/*.parquet"))
        planned = self._reads()
        found = self._client.compute(lazy).result().sort_index()
        after = self._reads()
        self._compare(found, data.station_means(frame).sort_index())
        self._show_reads(before, planned, after)

    def _compare(self, found: Any, expected: Any) -> None:
        from pandas.testing import assert_frame_equal

        difference = None
        try:
            # Sums of floats depend on their order in the last digits.
            assert_frame_equal(
                found, expected, check_dtype=False, check_index_type=False, rtol=1e-10, atol=0
            )
        except AssertionError as error:
            difference = str(error)
        self.printer.show(found.head(3).to_string())
        self.printer.check(
            f"pandas finds the same for all {len(expected)} stations",
            difference is None,
            difference,
        )

    def _reads(self) -> Counter[str]:
        """Count the reads from the data bucket by role; the user's own are under ``""``."""
        reads: Counter[str] = Counter()
        for role, resources in self.calls().items():
            for resource, actions in resources.items():
                if resource.startswith(f"{self.bucket}/"):
                    reads[role] += actions.get("s3:GetObject", 0)
        return reads

    def _show_reads(self, before: Counter[str], planned: Counter[str], after: Counter[str]) -> None:
        by_hosts = after - before
        by_hosts.pop("", None)
        mine_for_schema, mine_meanwhile = planned[""] - before[""], after[""] - planned[""]
        for role, count in by_hosts.items():
            self.printer.show(f"{count} reads by the hosts, as the role {role}")
        self.printer.show(f"{mine_for_schema} reads by this process, of the files' schema alone")
        self.printer.check(
            "the workers read the data as their hosts' role",
            sum(by_hosts.values()) >= data.FILES,
            dict(by_hosts),
        )
        self.printer.check(
            "no other process read it with the user's credentials meanwhile",
            mine_meanwhile == 0,
            mine_meanwhile,
        )

    def _scale(self, _result: StepResult) -> None:
        cluster, client = self._cluster, self._client
        self._keep(client, _workers(client))
        began = time.monotonic()
        cluster.scale(MANY)
        cluster.wait_for_workers(MANY)
        self.printer.show(f"{FEW} -> {MANY} in {age_text(time.monotonic() - began, tenths=True)}")
        workers = _workers(client)
        self.printer.check(f"{MANY} workers came", len(workers) == MANY, workers)
        self._keep(client, workers)
        holders = {address for address, keys in client.has_what().items() if keys}
        self.printer.check(
            f"all {MANY} workers hold random data that exists once",
            holders >= set(workers),
            holders,
        )
        began = time.monotonic()
        cluster.scale(FEW)
        wait_until(lambda: len(_workers(client)) <= FEW, limit_seconds=30, pause_seconds=0.1)
        left = _workers(client)
        self.printer.show(f"{MANY} -> {FEW} in {age_text(time.monotonic() - began, tenths=True)}")
        self.printer.check(f"{FEW} workers are left", len(left) == FEW, left)
        self._check_kept(client)
        client.publish_dataset(fingerprint=client.submit(data.fingerprint, self._kept[0]))

    def _keep(self, client: Any, workers: list[str]) -> None:
        """Make pieces on each worker, and store their checksums."""
        from distributed import wait

        made = [
            client.submit(data.piece, len(self._kept) + number, workers=[address], pure=False)
            for address in workers
            for number in range(3)
        ]
        wait(made)
        self._fingerprints += client.gather(client.map(data.fingerprint, made, pure=False))
        self._kept += made

    def _check_kept(self, client: Any) -> None:
        states = {future.status for future in self._kept}
        self.printer.check("no result was lost", states == {"finished"}, states)
        again = client.gather(client.map(data.fingerprint, self._kept, pure=False))
        same = sum(old == new for old, new in zip(self._fingerprints, again, strict=True))
        self.printer.check(
            f"all {len(self._kept)} are byte for byte what they were: none was computed again",
            same == len(self._kept),
            f"{same} of {len(self._kept)} are the same",
        )

    def _attach_again(self, _result: StepResult) -> None:
        command = [sys.executable, "-P", "-m", __name__, CLUSTER, str(self.settings)]
        done = subprocess.run(
            command,
            capture_output=True,
            encoding="utf-8",
            check=False,
            timeout=_SECOND_PROCESS_SECONDS,
        )
        self.printer.check(
            "the other process did its work", done.returncode == 0, done.stderr[-2000:]
        )
        report = json.loads(done.stdout)
        self.printer.show(
            f"process {report['process']} (this is {os.getpid()}) computed {report['sum']} on "
            "the same workers"
        )
        self.printer.check(
            "it saw the same scheduler, and a result of this process",
            (report["scheduler"], report["fingerprint"])
            == (self._cluster.scheduler_address, self._fingerprints[0]),
            report,
        )
        running = self.workspace().deployment(CLUSTER).status().state
        self.printer.check("the cluster runs on after it left", running == "running", running)
        self._client.unpublish_dataset("fingerprint")

    # ---- leaving ---------------------------------------------------------------------------------

    def _close(self, _result: StepResult) -> None:
        self._kept.clear()
        self._client.close()
        self._cluster.shutdown()
        self._client = self._cluster = None
        status = self.workspace().deployment(CLUSTER).status()
        self.printer.check(
            "the cluster is stopped", status.state in ("stopped", "stopping"), status.as_dict()
        )

    def _leave(self) -> None:
        """Release the cluster, if a step failed while it was open."""
        for one in (self._client, self._cluster):
            if one is not None:
                with contextlib.suppress(Exception):
                    one.close()

    def _remove(self, _result: StepResult) -> None:
        workspace = self.workspace()
        # Each one is tried, even after a failure; the first error is raised.
        with contextlib.ExitStack() as all_of_it:
            all_of_it.callback(self._check_nothing_left, workspace)
            all_of_it.callback(self._delete_bucket)
            all_of_it.callback(remove_network, workspace)
            all_of_it.callback(remove_cluster, workspace, CLUSTER)

    def _check_nothing_left(self, workspace: Any) -> None:
        name, left = workspace.settings.workspace.name, leftovers(workspace)
        promise = f"nothing carries the tag terradask:workspace={name}, or its names"
        self.printer.check(promise, not left, left)

    def _delete_bucket(self) -> None:
        import boto3

        s3: Any = boto3.client("s3")
        with unless("NoSuchBucket"):
            for number in range(data.FILES):
                s3.delete_object(Bucket=self.bucket, Key=data.key(number))
            s3.delete_bucket(Bucket=self.bucket)


@contextlib.contextmanager
def _compiling_meanwhile() -> Iterator[None]:
    """Import what later steps import, while Terraform mostly waits: in a new environment the
    client and five hosts would compile the same modules at once.
    """
    code = f"import os; os.nice(10); import {_IMPORTED_LATER}"
    process = subprocess.Popen([sys.executable, "-I", "-c", code], stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.kill()
        process.wait()


def _workers(client: Any) -> list[str]:
    return sorted(client.scheduler_info(n_workers=-1)["workers"])


# ---- the embedded AWS: a new one, or the one in the environment ----------------------------------


def run_demo(printer: DemoPrinter) -> None:
    """Run and show the main job. Raises `DemoFailed`, `InvalidInput`, `SetupError`,
    `ProviderUnavailable`.
    """
    for line in find_toolchain(os.environ):
        printer.show(line)
    begin_synthesis(printer.progress)
    with (
        _embedded_aws(printer) as calls,
        tempfile.TemporaryDirectory(prefix="terradask-demo-") as folder,
    ):
        MainJob(printer, Path(folder), calls).run()
    took = age_text(printer.seconds)
    printer.end(f"Done in {took}: everything was as promised, and nothing is left.")


@contextlib.contextmanager
def _embedded_aws(printer: DemoPrinter) -> Iterator[Calls]:
    from terradask_simulator import Simulator

    endpoint = os.environ.get("AWS_ENDPOINT_URL")
    if endpoint:
        printer.show(f"using the embedded AWS at {endpoint}, which the environment names")
        yield _calls_of(endpoint)
        return
    with Simulator.start() as simulator, simulator.applied():
        printer.show(
            f"an embedded AWS of {simulator.info.region} answers at {simulator.endpoint_url}"
        )
        yield lambda: simulator.calls(by="resource")


def _calls_of(endpoint: str) -> Calls:
    """Return a reader of an embedded AWS's calls; refuse other endpoints, above all real AWS."""
    from terradask_simulator.lifecycle import of_this_environment
    from terradask_simulator.process import request_control

    info = of_this_environment()
    if info is None or info.endpoint_url != endpoint:
        raise InvalidInput(
            "the demo runs on an embedded AWS alone",
            given=f"AWS_ENDPOINT_URL={endpoint}",
            allowed="an embedded AWS that runs, or none: the demo then starts one of its own",
            advice="unset AWS_ENDPOINT_URL",
        )

    return partial(request_control, info, "GET", "calls?by=resource")


# ---- a second process, which gets only the cluster's name ----------------------------------------


def attach_alone(name: str, settings: str) -> None:
    """Attach, read the first process's published results, compute, detach; print JSON."""
    from terradask import Cluster

    with Cluster(name=name, settings=settings) as cluster, cluster.get_client() as client:
        report = {
            "process": os.getpid(),
            "scheduler": cluster.scheduler_address,
            "workers": len(client.scheduler_info(n_workers=-1)["workers"]),
            "fingerprint": client.get_dataset("fingerprint").result(),
            "sum": client.submit(sum, range(1000)).result(),
        }
    print(json.dumps(report))


if __name__ == "__main__":
    attach_alone(*sys.argv[1:])
