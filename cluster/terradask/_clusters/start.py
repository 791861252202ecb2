"""Start a deployed cluster without Terraform: plan, claim and prepare a run, raise the groups."""

from __future__ import annotations

import datetime
import os
import secrets
import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._aws.group_limits import WATCHDOG_MINUTES
from terradask._aws.s3 import as_json
from terradask._catalog.quotas.launch import LaunchCheck
from terradask._clusters.built_environments import BuiltEnvironments, environment_id
from terradask._clusters.dask_config import portable_config
from terradask._clusters.launch import check_reservations_at_start, deployed_launch
from terradask._clusters.lifetime import lifetime_policy
from terradask._clusters.limits import StartLimits, check_start
from terradask._clusters.private_envs import warn_of_secrets
from terradask._clusters.stop import record_end
from terradask._clusters.worker_counts import numbers_at_start, policies_at_start
from terradask._common.clock import utc_text
from terradask._common.side_by_side import side_by_side
from terradask._observe.documents import Descriptor, read_descriptor, read_run
from terradask._observe.keys import KeySet, check_may_change
from terradask._observe.problems import problems_at_start
from terradask._observe.record import ClusterRecord
from terradask._observe.run_costs.book import open_account, starts_today
from terradask._observe.secret import MOST_STARTS, NEAR_STARTS
from terradask._observe.store import (
    CLOSING,
    DESCRIPTOR,
    ENVIRONMENT,
    HOSTS,
    RUN,
    SCHEDULER,
    SOFTWARE,
    parse_object,
)
from terradask._software.archive_hashes import lock_file_path
from terradask._software.host_packages import check_host_packages
from terradask._software.hosts import describe_newer_glibc
from terradask._software.lock import SoftwareLock
from terradask._software.named_environments import NamedEnvironments
from terradask._software.package_sync import (
    describe_differences,
    describe_loopback,
    lock_for_hosts,
    package_sync_settings,
    versions_in_image,
)
from terradask._software.software_file import Software, software_of
from terradask._software.sync import PackageSync
from terradask.errors import (
    ClusterError,
    ClusterStopped,
    DocumentChanged,
    InvalidInput,
    QuotaExceeded,
)
from terradask_host.documents import LifetimePolicy, Run, sha256_of
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.limits import SIZE_TAG
from terradask_modules.names import SCHEDULER_GROUP, TAG_DESCRIPTOR

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline
    from terradask_stacks.settings import ClusterSettings


#: Derives the settings of a run from those of the deployed cluster.
Change = Callable[["ClusterSettings"], "ClusterSettings"]


@dataclass(frozen=True)
class RunPlan:
    """A run to start."""

    #: The content of ``run.json``.
    run: Run
    #: Group of workers -> number of workers to start.
    numbers: Mapping[str, int]
    #: Exact versions for the hosts.
    software: SoftwareLock
    #: The check of AWS's quotas, already running; None if they aren't checked.
    check: LaunchCheck | None = None
    #: Id of the hosts' environment.
    environment_id: str = ""
    #: Its comparison with the workspace's limits.
    limits: StartLimits = field(default_factory=StartLimits)

    @property
    def sha256(self) -> dict[str, str]:
        """The digests of the documents that determine the hosts' behaviour, by name."""
        return {
            RUN: sha256_of(as_json(self.run.to_document())),
            SOFTWARE: sha256_of(self.software.to_requirements().encode()),
        }


#: Longest age of data that a start uses: other clients may have changed it since.
_RECENT_SECONDS = 5.0


@dataclass(frozen=True)
class _StartSnapshot:
    """The data that a start reads from AWS, in parallel, before it plans its run."""

    settings: ClusterSettings
    began_at: float
    descriptor: Future[Descriptor]
    groups: Future[dict[str, Group]]
    baseline: Future[Baseline]
    quotas: Future[LaunchCheck | None]

    @classmethod
    def begin(
        cls, record: ClusterRecord, settings: ClusterSettings, check_quotas: bool
    ) -> _StartSnapshot:
        """Begin to read; the users of the results raise the errors."""

        def begin_check() -> LaunchCheck | None:
            descriptor = record.descriptor
            hosts = deployed_launch(descriptor, numbers_at_start(descriptor, settings))
            workspace = descriptor.workspace
            return LaunchCheck(record.aws, descriptor.cluster, hosts, workspace=workspace)

        pool = ThreadPoolExecutor(4)
        try:
            return cls(
                settings,
                time.time(),
                # An apply may have changed it since the last read.
                pool.submit(record.read_descriptor),
                pool.submit(check_startable, record),
                pool.submit(bootable_baseline, record),
                pool.submit(begin_check if check_quotas else lambda: None),
            )
        finally:
            pool.shutdown(wait=False)


def _is_recent(read_at: float) -> bool:
    """Return whether data read at a time, in seconds since the epoch, is recent enough for a start,
    including time in suspend.
    """
    return 0 <= time.time() - read_at < _RECENT_SECONDS


@dataclass(eq=False, repr=False)
class Starter:
    """Start runs of one cluster.

    `stop` rolls a start back; paths in settings are relative to `root`; `prepare` writes the
    documents that must exist before a host boots.
    """

    record: ClusterRecord
    _: KW_ONLY
    stop: Callable[[], object]
    root: Path | None = None
    prepare: Callable[[ClusterRecord, RunPlan, KeySet], None] | None = None
    #: Id of the run that this object started last; None if another start took over.
    started_run_id: str | None = field(default=None, init=False)
    #: Id of that run's environment.
    environment_id: str = field(default="", init=False)
    _begun: _StartSnapshot | None = field(default=None, init=False)

    def begin(self, settings: ClusterSettings) -> None:
        """Begin to read the data for a start with these settings, including quotas."""
        self._begun = _StartSnapshot.begin(self.record, settings, check_quotas=True)

    def start(
        self,
        change: Change,
        *,
        life: LifetimePolicy | None = None,
        check_quotas: bool = True,
        warn: Callable[[str], None] = lambda text: None,
    ) -> Run:
        """Start a run unless one is active; `life` defaults to the settings' policy.

        Raises `ClusterPrivate`, `DocumentChanged`.
        """
        snapshot = self._snapshot(change, check_quotas)
        try:
            groups, plan = self._planned(snapshot, life, warn)
            is_outdated = self.record.update_descriptor(snapshot.descriptor.result())
        except Exception:
            is_outdated = self.record.update_descriptor(snapshot.descriptor.result())
            if not is_outdated:
                raise
        if is_outdated:
            groups, plan = self._planned(self._snapshot(change, check_quotas), life, warn)
        self._resume(groups, warn)
        return self.start_planned(plan, warn)

    def _resume(self, groups: Mapping[str, Group], warn: Callable[[str], None]) -> None:
        """Resume what AWS suspended, and warn of what keeps groups from their numbers."""
        left = self.record.groups.resume(groups)
        for name in sorted(groups):
            if left[name] != groups[name]:
                warn(
                    f"{name}: AWS had suspended {', '.join(groups[name].suspended_by_aws)} after a "
                    "day without a successful launch, and this start has resumed it; terradask "
                    f"status {self.record.name} shows whether launches still fail, and why"
                )
        for problem in problems_at_start(self.record.descriptor, left):
            warn(problem)

    def _snapshot(self, change: Change, check_quotas: bool) -> _StartSnapshot:
        """Return the snapshot of `begin` if it is recent and for these settings, else a new one."""
        settings = change(self.record.descriptor.cluster_settings)
        begun, self._begun = self._begun, None
        if begun is not None and begun.settings == settings and _is_recent(begun.began_at):
            return begun
        return _StartSnapshot.begin(self.record, settings, check_quotas)

    def _planned(
        self,
        snapshot: _StartSnapshot,
        life: LifetimePolicy | None,
        warn: Callable[[str], None],
    ) -> tuple[dict[str, Group], RunPlan]:
        check_may_change(self.record.aws, self.record.descriptor, "start it")
        plan = plan_run(self.record, snapshot, self.root, life)
        check_reservations_at_start(self.record, plan.numbers, warn)
        return snapshot.groups.result(), plan

    def start_planned(self, plan: RunPlan, warn: Callable[[str], None]) -> Run:
        """Start a run unless one is active.

        Raises `ClusterStopped`, `QuotaExceeded`.
        """
        record, run = self.record, plan.run
        if plan.software.newer_glibc:
            warn(describe_newer_glibc(plan.software.newer_glibc))
        if differences := describe_differences(plan.software):
            warn(differences)
        for text in plan.limits.warnings:
            warn(text)
        if plan.software.loopback and not is_loopback_endpoint(os.environ):
            warn(describe_loopback(plan.software.loopback))
        with ThreadPoolExecutor(1) as pool:
            # Generate the keys while claiming the run.
            generated = pool.submit(_make_run_keys, record, run)
            while not claim(record, run):
                current = record.current_run()
                if current is not None:
                    return current
            keys = generated.result()
        self.started_run_id, self.environment_id = run.run_id, plan.environment_id
        with ThreadPoolExecutor(2) as pool:
            # In parallel: no host needs it.
            opened = pool.submit(open_account, record, run)
            unmarked = pool.submit(record.objects.delete, [CLOSING])
            started = pool.submit(_starts_today, record, opened)
            launched = self._launch(plan, keys, warn, unmarked)
            if (n := started.result()) >= MOST_STARTS - NEAR_STARTS:
                warn(
                    f"cluster {record.name} was started {n} times in the last 24 hours; AWS's "
                    f"limit for versions of its secret allows about {MOST_STARTS}. Keep it running "
                    "for several jobs, or use a cluster of another name"
                )
            return launched

    def _launch(
        self, plan: RunPlan, keys: KeySet, warn: Callable[[str], None], unmarked: Future[None]
    ) -> Run:
        record, run = self.record, plan.run
        try:
            with ThreadPoolExecutor(1) as pool:
                # In parallel: it opens new connections.
                groups = pool.submit(prepare_groups, record, plan)
                (self.prepare or prepare_run)(record, plan, keys)
                unmarked.result()
                if plan.check is not None:
                    plan.check.check(warn, starts=True)
                read_at, current = time.time(), record.run()
                groups.result()
            with plan.limits.in_turn(run.run_id, warn):
                if not _is_recent(read_at):
                    current = record.run()
                return self._request_hosts(plan, current, warn)
        except QuotaExceeded:
            # Nothing was launched. If another start has taken over, its run stays.
            current = record.run()
            if current is not None and current.run_id == run.run_id:
                self.stop()
            raise

    def _request_hosts(
        self, plan: RunPlan, current: Run | None, warn: Callable[[str], None]
    ) -> Run:
        """Raise the groups, unless another start or a stop has taken over since the claim."""
        record, run = self.record, plan.run
        if current is None:
            name = record.name
            raise ClusterStopped(
                f"Cluster {name!r} was stopped while it was starting.",
                cluster=name,
                advice=f"terradask start {name}",
            )
        if current.run_id != run.run_id:
            # Preparation took so long (the machine was suspended) that another start took over.
            self.started_run_id = None
            warn(
                f"another start of {record.name} took over while this one was delayed; if new "
                f"hosts fail: terradask stop {record.name}, then start"
            )
            return current
        record.groups.set_desired(SCHEDULER_GROUP, 1)
        # If AWS has no capacity there, the scheduler's host moves the rest to the next group.
        for name, n in plan.numbers.items():
            record.groups.set_desired(record.descriptor.worker_groups[name][0], n)
        return run


def plan_run(
    record: ClusterRecord, snapshot: _StartSnapshot, root: Path | None, life: LifetimePolicy | None
) -> RunPlan:
    """Return the plan of a run; writes nothing. Raises `InvalidInput`, and as
    `bootable_baseline`.
    """
    descriptor, settings = record.descriptor, snapshot.settings
    software, sync = software_of(settings, root), package_sync_settings(settings, os.environ)
    warn_of_secrets(record.name, settings.environ)
    numbers = numbers_at_start(descriptor, settings)
    named = NamedEnvironments(record.aws, record.bucket)
    container = descriptor.lock.get("container")
    if container:
        _check_no_packages(settings, sync, container)
        lock = versions_in_image()
    else:
        lock = lock_for_hosts(
            software,
            sync,
            architecture=descriptor.architecture,
            lock_file=lock_file_path(settings, root),
            named=named,
            jupyter=descriptor.structure.scheduler.jupyter,
        )
    baseline = snapshot.baseline.result()
    limits = check_start(record, baseline, numbers)
    identity = environment_id(record, baseline, lock.python, lock.to_requirements())
    now = datetime.datetime.now(datetime.UTC)
    run = Run(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        started_at=utc_text(now),
        owner=record.aws.caller_arn,
        secret_version_id=str(uuid.uuid4()),
        python=lock.python,
        packages=lock.versions,
        n_workers=sum(numbers.values()),
        environ=dict(settings.environ),
        secrets=dict(settings.secrets),
        dask_config=portable_config() if settings.send_dask_config else {},
        life=life or lifetime_policy(settings),
        hashed=lock.is_hashed,
        structure=descriptor.structure,
        host_roles=baseline.host_roles(record.name),
        environment=(named.find_archive(software, identity) if isinstance(software, str) else None)
        or (None if container else BuiltEnvironments(record).find(identity)),
        container=container,
        container_credentials=settings.container_credentials,
        scaling=policies_at_start(descriptor, settings),
        spot_fallback_seconds=float(settings.spot_fallback_seconds),
        month_spent=limits.month_spent,
    )
    return RunPlan(run, numbers, lock, snapshot.quotas.result(), identity, limits)


def _check_no_packages(settings: ClusterSettings, sync: PackageSync, container: str) -> None:
    sources = {
        "software": settings.software,
        "software_lock": settings.software_lock,
        "package_sync": sync,
    }
    given = [name for name, value in sources.items() if value]
    if given:
        raise InvalidInput(
            "Hosts that run a container image get no other packages.",
            given=f"{given[0]}, with {container}",
            allowed="the image's packages",
            advice=f"leave {given[0]} out, or the cluster's container",
        )


def with_start_options(
    settings: ClusterSettings,
    *,
    software: Software | None = None,
    software_lock: Path | None = None,
    package_sync: PackageSync | None = None,
    group_workers: Mapping[str, int] = MappingProxyType({}),
    **others: Any,
) -> ClusterSettings:
    """Return settings updated by the options of a start that aren't None. A given source of
    packages replaces the settings' sources.
    """
    from terradask_stacks.settings import WorkerGroupSettings

    update = {name: value for name, value in others.items() if value is not None}
    groups = dict(settings.worker_groups)
    for name, n in group_workers.items():
        # `numbers_at_start` refuses unknown groups.
        group = groups.get(name, WorkerGroupSettings())
        groups[name] = group.model_copy(update={"n_workers": n})
    if software is not None:
        file = Path.cwd() / software if isinstance(software, Path) else None
        update["software"] = software if file is None else str(file)
    if software_lock is not None:
        update["software_lock"] = str(Path.cwd() / software_lock)
    if package_sync is not None:
        update |= package_sync.settings
    elif software is not None or software_lock is not None:
        kept = software_lock is None and settings.local_modules
        update |= {"package_sync": False, "local_modules": kept}
    return settings.model_copy(update={**update, "worker_groups": groups})


def bootable_baseline(record: ClusterRecord) -> Baseline:
    """Return the network baseline, checked for the packages that hosts boot with.

    Raises `BaselineError`.
    """
    # pydantic is slow to import
    from terradask._network.baseline import read_baseline

    baseline = read_baseline(record.aws, record.bucket)
    # Hosts of an embedded AWS are processes without installation.
    if not is_loopback_endpoint(os.environ):
        check_host_packages(record.aws, baseline, record.descriptor.architecture)
    return baseline


def claim(record: ClusterRecord, run: Run) -> bool:
    """Write ``run.json`` if no run is active; return whether it was written. S3's conditional
    writes decide between concurrent starts.
    """
    objects = record.objects
    if objects.claim(RUN, run.to_document()):
        return True
    found = objects.read_version(RUN)
    if found is None or record.goes_on(read_run(found[0])):
        return False
    # That run is over or was aborted: the start that replaces this version cleans up.
    if not objects.replace(RUN, run.to_document(), found[1]):
        return False
    before = read_run(found[0])
    record_end(record, lambda: before)
    objects.delete([CLOSING, SCHEDULER, ENVIRONMENT, *objects.names(HOSTS)])
    record.groups.zero()
    return True


def _host_python(plan: RunPlan) -> str:
    """Return the Python version that hosts install, or the source that provides Python."""
    if plan.run.container:
        return "of-container"
    return "of-conda" if plan.software.conda else plan.run.python


def _starts_today(record: ClusterRecord, opened: Future[None]) -> int:
    opened.result()
    return starts_today(record)


def _make_run_keys(record: ClusterRecord, run: Run) -> KeySet:
    from terradask._clusters.certificates import make_keys

    return make_keys(
        record.name,
        run.run_id,
        lifetime_days=_longest_seconds(run) / 86_400,
        clock_ahead_seconds=record.aws.clock_ahead_seconds,
    )


def prepare_run(record: ClusterRecord, plan: RunPlan, keys: KeySet) -> None:
    """Write the software lock and the keys, which must exist before a host boots. The secret also
    contains the digests of the hosts' documents.
    """
    objects, software, version_id = record.objects, plan.software, plan.run.secret_version_id
    document = replace(keys, sha256=plan.sha256, indexes=software.credentials).to_document()
    writes: list[Callable[[], object]] = [
        partial(record.secret.write, document, version_id=version_id),
        partial(objects.write_text, SOFTWARE, software.to_requirements()),
        partial(objects.put_wheels, software.contents),
    ]
    side_by_side(writes, len(writes))


def prepare_groups(record: ClusterRecord, plan: RunPlan) -> None:
    """Set the tags that hosts read at boot, and the watchdog schedule, which ends a run whose
    scheduler never comes up.
    """
    run, groups = plan.run, record.groups
    tags = {
        "terradask:run:id": run.run_id,
        "terradask:run:owner": run.owner,
        "terradask:run:started": run.started_at,
        # boot.sh installs it; the host program has no permission to.
        "terradask:run:python": _host_python(plan),
    }
    minutes = min(WATCHDOG_MINUTES, _longest_seconds(run) / 60)
    sizes = {key: {SIZE_TAG: size} for key, size in plan.limits.tags.items() if size}
    side_by_side([partial(groups.tag, tags, sizes), partial(groups.set_watchdog, minutes)], 2)


def _longest_seconds(run: Run) -> float:
    return (run.life or LifetimePolicy()).max_lifetime_seconds


# ---- checks before a start -----------------------------------------------------------------------


def check_startable(record: ClusterRecord) -> dict[str, Group]:
    """Return the cluster's groups; check that groups and secret are the cluster's own and complete.

    Raises `ForeignResources`, `ClusterError`, and as `check_bound`.
    """
    with ThreadPoolExecutor(1) as pool:
        own = pool.submit(record.secret.check_own)
        groups = record.groups.describe()
        gone = set(record.descriptor.groups) - set(groups)
        record.groups.check_own()
    if gone:
        marked = record.marked_closing
        why = "its destruction was not completed" if marked else "some of its groups are missing"
        raise ClusterError(
            f"Cluster {record.name!r} is partly destroyed: {why}.",
            cluster=record.name,
            given=f"without {', '.join(sorted(gone))}",
            advice=(
                f"terradask destroy {record.name} completes it; terradask apply {record.name} "
                "restores the cluster"
            ),
        )
    own.result()
    check_bound(record)
    return groups


def check_bound(record: ClusterRecord) -> None:
    """Check ``cluster.json`` against the digest in the secret's tags, if it has one: hosts obey the
    document, and others may write it.

    Raises `DocumentChanged`.
    """
    bound = record.secret.tags.get(TAG_DESCRIPTOR)
    if bound is None:
        return
    content = record.objects.read_bytes(DESCRIPTOR) or b""
    if sha256_of(content) != bound or (
        # The start uses the descriptor that was read before.
        read_descriptor(parse_object(content, DESCRIPTOR)) != record.descriptor
    ):
        advice = f"delete it and run: terradask apply {record.name}"
        raise DocumentChanged(DESCRIPTOR, cluster=record.name, advice=advice)
