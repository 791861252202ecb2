"""The host program's main sequence: identity, run, software, keys, Dask, leaving the cluster."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import signal
import threading
import traceback
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import FrameType

from terradask_host import __version__, states
from terradask_host.agent.aws import Aws
from terradask_host.agent.bound_run import RUN, SOFTWARE, BoundRun, secret_id
from terradask_host.agent.container.pull import pull_container
from terradask_host.agent.dask_process import DaskProgram, LocalPython
from terradask_host.agent.environment import Environment, own_wheels
from terradask_host.agent.event_queue import EventQueue, Failed, Stop, StopRequested
from terradask_host.agent.groups import ClusterGroups
from terradask_host.agent.host import Host
from terradask_host.agent.keys import check_in_memory, write_keys
from terradask_host.agent.launch_hook import LaunchHook
from terradask_host.agent.logs import BootLog, HostLog, LogShipper
from terradask_host.agent.objects import ClusterObjects, OwnReport, wait_for
from terradask_host.agent.own_tags import OwnTags
from terradask_host.agent.referenced_secrets import ReferencedSecrets, RegistryLogin, SecretSocket
from terradask_host.agent.report import Reporter
from terradask_host.agent.retry import repeat
from terradask_host.agent.scheduler import SchedulerHost
from terradask_host.agent.shared_environment import SharedEnvironment, Sharing
from terradask_host.agent.spot import SpotWatch
from terradask_host.agent.worker import WorkerHost
from terradask_host.config import HostConfig, load_config, parse_document
from terradask_host.documents import PREPARED
from terradask_host.errors import HostError, MetadataUnavailable, RunMissing
from terradask_host.machine import wait_for_driver
from terradask_host.metadata import Identity, InstanceMetadata
from terradask_host.mount_list import check_mounted
from terradask_host.rules.policy import is_own_run


def main() -> int:
    """Run the host program; return 0 after an orderly end (the machine may power off), else 1."""
    log = HostLog()
    events = EventQueue()

    def stop(number: int, frame: FrameType | None) -> None:
        events.put(Stop(f"asked to stop by {signal.Signals(number).name}"))

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    try:
        return Agent(load_config(os.environ), log, events).run()
    except HostError as error:
        log.info(str(error))
        return 1
    except StopRequested as request:
        log.info(f"{request.stop.reason}, before this host had read its tags")
        return 0


class Agent:
    """One run of the host program."""

    def __init__(self, config: HostConfig, log: HostLog, events: EventQueue) -> None:
        self._config = config
        self._timing = config.timing
        self._log = log
        self._events = events
        self._metadata = InstanceMetadata(config.metadata_endpoint)
        self._aws = Aws(config.region)
        self._secret_socket: SecretSocket | None = None
        self._sharing = Sharing()

    def run(self) -> int:
        """Read the host's role from its tags, and run that until the host leaves.

        Raises `MetadataUnavailable` when the tags can't be read: no report can be written then.
        """
        boot_log = BootLog(self._config.paths, self._log)
        identity = self._identity()
        self._log.info(f"version {__version__}; {json.dumps(vars(identity))}")
        objects = ClusterObjects(self._aws, self._config.bucket, identity.cluster)
        reporter = Reporter(
            OwnReport(objects, f"hosts/{identity.instance_id}.json").write,
            identity,
            tail=self._log.tail,
            warn=self._log.info,
        )
        shipper = LogShipper(
            self._aws,
            self._log,
            log_group=self._config.log_group,
            identity=identity,
            read_run=self._run_reader(reporter),
            flush_seconds=self._timing.log_flush_seconds,
        )
        watch = SpotWatch(
            InstanceMetadata(self._config.metadata_endpoint),
            self._events,
            self._timing,
            self._log.info,
        )
        tags = OwnTags(
            self._aws,
            InstanceMetadata(self._config.metadata_endpoint),
            identity.instance_id,
            self._config.paths.root,
            self._config.paths.tagged,
            log=self._log.info,
            report=lambda why: reporter.note(
                identity.group, "untagged", f"{identity.instance_id}: {why}"
            ),
        )
        tags.start()
        try:
            hook = LaunchHook.of_instance(
                self._metadata, self._aws, identity.instance_id, log=self._log.info
            )
            if hook is not None and self._metadata.is_prepared():
                return self._prepare(identity, objects, reporter, hook)
            if hook is not None:
                self._begin_service(hook)
            return self._run_role(identity, objects, reporter)
        finally:
            self._sharing.close()
            if self._secret_socket is not None:
                self._secret_socket.close()
            tags.close()
            watch.close()
            boot_log.close()
            reporter.close()
            shipper.close()

    def _run_reader(self, reporter: Reporter) -> Callable[[], str | None]:
        """Return what reads the run for the log; a prepared instance's tag names another one."""
        if self._config.paths.prepared.exists():
            return lambda: reporter.run_id
        return InstanceMetadata(self._config.metadata_endpoint).run_id

    def _begin_service(self, hook: LaunchHook) -> None:
        """Complete the launch, on a thread: the boot doesn't wait for AWS's agreement."""
        threading.Thread(
            target=hook.complete_soon,
            args=(self._timing.hook_retry_seconds,),
            name="launch hook",
            daemon=True,
        ).start()

    def _prepare(
        self, identity: Identity, objects: ClusterObjects, reporter: Reporter, hook: LaunchHook
    ) -> int:
        """Install what a run needs, without keys, and wait until AWS stops this instance.

        It ends only then: a machine that powers off is replaced. So a failure is reported, and the
        host installs the rest when it is started.
        """
        try:
            reporter.enter(states.BOOTING)
            reporter.enter(states.PREPARING)
            try:
                # First, since AWS stops it after the hook's time in any case.
                self._mark_prepared(identity)
                self._install(identity, objects, reporter)
            except Exception as error:  # noqa: BLE001 - every failure belongs in the report
                self._log.error("".join(traceback.format_exception(error)))
                reporter.note(identity.group, "unprepared", f"{identity.instance_id}: {error}")
            os.sync()
            reporter.enter(states.LEAVING, PREPARED)
            reporter.enter(states.LEFT, PREPARED)
            completed = False
            while True:
                completed = completed or hook.complete()
                self._events.pause(self._timing.hook_retry_seconds)
        except StopRequested as request:
            if reporter.state != states.LEFT:
                reporter.enter(states.LEAVING, request.stop.reason)
                reporter.enter(states.LEFT, request.stop.reason)
        return 0

    def _mark_prepared(self, identity: Identity) -> None:
        mark = self._config.paths.prepared
        mark.parent.mkdir(parents=True, exist_ok=True)
        # The boot script's mark is root's, in an image's folder of this user: it is replaced.
        written = mark.with_suffix(".new")
        written.write_text(identity.instance_id)
        written.replace(mark)

    def _install(self, identity: Identity, objects: ClusterObjects, reporter: Reporter) -> None:
        """Install the environment of the run that goes on, if there is one."""
        if self._metadata.run_id() is None or objects.read(RUN) is None:
            self._log.info("the cluster is stopped: its environment isn't known yet")
            return
        secret = secret_id(self._config.workspace, identity.cluster)
        bound = self._wait_run(objects, secret, reporter)
        self._program(identity, objects, bound, reporter)

    def _run_role(self, identity: Identity, objects: ClusterObjects, reporter: Reporter) -> int:
        try:
            reporter.enter(states.BOOTING)
            host = self._boot(identity, objects, reporter)
            role = SchedulerHost(host) if identity.role == "scheduler" else WorkerHost(host)
            role.run()
        except StopRequested as request:
            # No Dask process is running. An instance that AWS interrupts powers off, and its group
            # replaces it.
            reporter.enter(states.LEAVING, request.stop.reason)
            reporter.enter(states.LEFT, request.stop.reason)
        except Exception as error:  # noqa: BLE001 - every failure belongs in the report
            text = (
                str(error)
                if isinstance(error, HostError)
                else "".join(traceback.format_exception(error))
            )
            self._log.error(text)
            reporter.enter(states.FAILED, text)
            return 1
        self._log.info("left")
        return 0

    def _identity(self) -> Identity:
        def may_pass(error: Exception) -> bool:
            if is_unavailable := isinstance(error, MetadataUnavailable):
                self._log.info(str(error))
            return is_unavailable

        return repeat(
            self._metadata.identity,
            may_pass,
            self._timing.metadata_deadline_seconds,
            self._events.pause,
            first_seconds=0.1,
        )

    def _boot(self, identity: Identity, objects: ClusterObjects, reporter: Reporter) -> Host:
        """Collect the run, the software and the keys."""
        check_mounted(self._config.mounts, self._config.paths.root)
        secret = secret_id(self._config.workspace, identity.cluster)
        bound = self._wait_run(objects, secret, reporter)
        secrets = ReferencedSecrets.of_run(
            bound.run, identity.role, self._aws, self._timing, self._log.info
        )
        # Before the environment, whose installation takes minutes.
        secrets.read(self._events.pause)
        reporter.enter(states.ENVIRONMENT)
        program = self._program(identity, objects, bound, reporter)
        if identity.role == "worker":
            wait_for_driver(
                self._config.gpu_count,
                deadline_seconds=self._timing.gpu_driver_seconds,
                pause=self._events.pause,
            )
        check_in_memory(self._config.paths.keys)
        keys = write_keys(bound.secret, identity.role, self._config.paths.keys)
        if secrets:
            self._secret_socket = SecretSocket(
                self._config.paths.secrets_socket, secrets, partial(self._fail, identity, reporter)
            )
        return Host(
            config=self._config.of_run(bound.run),
            identity=identity,
            bound=bound,
            keys=keys,
            program=program,
            aws=self._aws,
            objects=objects,
            groups=ClusterGroups(
                self._aws,
                bound.structure,
                self._log.info,
                InstanceMetadata(self._config.metadata_endpoint).is_member,
            ),
            reporter=reporter,
            log=self._log,
            events=self._events,
        )

    def _fail(self, identity: Identity, reporter: Reporter, error: HostError) -> None:
        """Have the host fail; but a process beside a running scheduler ends alone."""
        if identity.role == "scheduler" and reporter.state == states.RUNNING:
            self._log.error(str(error))
        else:
            self._events.put(Failed(error))

    def _wait_run(self, objects: ClusterObjects, secret: str, reporter: Reporter) -> BoundRun:
        """Wait until ``run.json``, the secret and this instance's tag name the same run.

        They may differ for a moment while a start replaces another run.
        """
        found = "no tag terradask:run:id"
        was_prepared = self._config.paths.prepared.exists()

        def read(waited_seconds: float) -> BoundRun | None:
            nonlocal found
            try:
                # A prepared instance has the tag of an earlier run, or none.
                tag = None if was_prepared else self._metadata.run_id()
            except MetadataUnavailable as error:
                found = str(error)
                return None
            # From now on the host's reports name a run, even if it gets none of its documents.
            reporter.run_id = tag or reporter.run_id
            found = f"the instance's run is {tag or 'not named by a tag'}"
            content = objects.read(RUN)
            run_id = None if content is None else parse_document(content, RUN).get("run_id")
            there = f"run.json is of {run_id}" if run_id else "no run.json"
            found += f", {there}"
            if content is None or not is_own_run(
                tag, run_id, math.inf if was_prepared else waited_seconds, self._timing
            ):
                return None
            reporter.run_id = run_id
            keys = objects.read_secret(secret)
            if keys is None or keys.get("run_id") != run_id:
                whose = None if keys is None else keys.get("run_id")
                found += f", the keys in the secret {secret} are of {whose or 'no run'}"
                return None
            return BoundRun.read(content, keys)

        try:
            return wait_for(
                read,
                what="run.json and keys of this instance's run",
                advice=(
                    "Start the cluster: start writes them before it raises the groups. Check the "
                    "host role's rights on the bucket and the secret."
                ),
                deadline_seconds=self._timing.run_deadline_seconds,
                events=self._events,
            )
        except RunMissing as error:
            error.given = found
            raise

    def _program(
        self, identity: Identity, objects: ClusterObjects, bound: BoundRun, reporter: Reporter
    ) -> DaskProgram:
        """Return the program that runs Dask: the run's environment or its container image."""
        if self._config.python is not None:
            own = self._config.paths.state / "own-packages"
            lock = self._read_lock(objects, bound).decode()
            return LocalPython(self._config.python, unpack_own_packages(lock, own, objects.read))
        if bound.run.container is None:
            return LocalPython(self._build(identity, objects, bound, reporter))
        login = RegistryLogin.of_run(
            bound.run, identity.role, self._aws, self._timing, self._log.info
        )
        # Before the registry asks for it: a missing right is the reason then.
        login.read(self._events.pause)
        return pull_container(
            bound.run.container,
            self._config.paths,
            self._aws,
            events=self._events,
            log=self._log.info,
            deadline_seconds=self._timing.environment_deadline_seconds,
            login=login.username_and_password if login else None,
        )

    def _build(
        self, identity: Identity, objects: ClusterObjects, bound: BoundRun, reporter: Reporter
    ) -> Path:
        environment = Environment(
            self._config.paths,
            str(bound.run.python),
            self._read_lock(objects, bound).decode(),
            events=self._events,
            log=self._log.info,
            deadline_seconds=self._timing.environment_deadline_seconds,
            require_hashes=bound.run.hashed,
            read=objects.read,
            credentials=bound.secret.get("indexes"),
        )
        shared = SharedEnvironment(
            environment,
            bound,
            objects,
            instance_id=identity.instance_id,
            timing=self._timing,
            sharing=self._sharing,
            note=lambda why: reporter.note(
                identity.group, "rebuilt", f"{identity.instance_id}: {why}"
            ),
        )
        return shared.lead() if identity.role == "scheduler" else shared.follow()

    def _read_lock(self, objects: ClusterObjects, bound: BoundRun) -> bytes:
        lock = wait_for(
            lambda _: objects.read(SOFTWARE),
            what=SOFTWARE,
            advice="Start the cluster again: start writes it.",
            deadline_seconds=self._timing.run_deadline_seconds,
            events=self._events,
        )
        bound.check(SOFTWARE, lock)
        return lock


# ---- the cluster's own packages on a host with a given Python, which stays unchanged -------------


def unpack_own_packages(
    lock_text: str, folder: Path, read: Callable[[str], bytes | None]
) -> Path | None:
    """Unpack the wheels of the cluster's own packages and return the folder; None without wheels.

    Raises `ConfigInvalid`, `EnvironmentFailed`, `DocumentChanged`.
    """
    shutil.rmtree(folder, ignore_errors=True)
    for content in own_wheels(lock_text, read):
        folder.mkdir(parents=True, exist_ok=True)
        with zipfile.ZipFile(io.BytesIO(content)) as wheel:
            wheel.extractall(folder)
    return folder if folder.exists() else None
