"""Starting a deployed cluster: a run is planned, claimed, prepared, and its groups are raised. No Terraform."""

from __future__ import annotations

import datetime
import secrets
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from terradask._aws.autoscaling import DEAD_MAN_MINUTES
from terradask._common.clock import utc_text
from terradask._deployments.dask_config import portable_config
from terradask._deployments.documents import LifetimePolicy, Run, read_run
from terradask._deployments.launch import deployed_launch
from terradask._deployments.software import SoftwareLock, lock_software
from terradask._deployments.store import CLOSING, HOSTS, RUN, SCHEDULER, SOFTWARE, write_secret
from terradask._quotas.check import LaunchCheck
from terradask.errors import ClusterError, ClusterStopped, QuotaExceeded
from terradask_modules.names import SCHEDULER_GROUP

if TYPE_CHECKING:
    from terradask._deployments.deployment import Deployment


@dataclass(frozen=True)
class RunPlan:
    """A run that is to be started.

    Parameters
    ----------
    run
        What ``run.json`` will say.
    numbers
        Group of workers -> how many to start with.
    software
        Exact versions for the hosts.
    check
        The look at AWS's quotas that was begun; None where they don't matter.
    """

    run: Run
    numbers: Mapping[str, int]
    software: SoftwareLock
    check: LaunchCheck | None = None


def plan_run(
    deployment: Deployment,
    *,
    numbers: Mapping[str, int],
    environ: Mapping[str, str],
    software: Sequence[str],
    software_lock: Path | None,
    send_dask_config: bool,
    life: LifetimePolicy,
    check_quotas: bool,
) -> RunPlan:
    """Describe a run; nothing is written yet. AWS's quotas are looked at meanwhile.

    Raises
    ------
    InvalidInput
        When a package isn't installed here, or `software_lock` hasn't got it as it is installed.
    """
    descriptor = deployment.descriptor
    launch = deployed_launch(descriptor, numbers) if check_quotas else None
    check = None if launch is None else LaunchCheck(deployment.aws, launch, workspace=descriptor.workspace)
    lock = lock_software(list(software), architecture=descriptor.architecture, lock_file=software_lock)
    now = datetime.datetime.now(datetime.UTC)
    run = Run(
        run_id=f"{now:%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}",
        started_at=utc_text(now),
        owner=deployment.aws.caller_arn,
        secret_version_id=str(uuid.uuid4()),
        python=lock.python,
        packages=dict(lock.packages),
        n_workers=sum(numbers.values()),
        environ=dict(environ),
        dask_config=portable_config() if send_dask_config else {},
        life=life,
        hashed=bool(lock.hashes),
    )
    return RunPlan(run, numbers, lock, check)


def start_run(deployment: Deployment, plan: RunPlan, tell: Callable[[str], None]) -> Run:
    """Start a run, unless one goes on; return the one that does then.

    Raises
    ------
    ClusterStopped, QuotaExceeded
        As `Deployment.start` tells.
    """
    run = plan.run
    while not claim(deployment, run):
        current = deployment.current_run()
        if current is not None:
            return current
    deployment.started_run_id = run.run_id
    prepare(deployment, plan)
    if plan.check is not None:
        try:
            plan.check.before_launch(tell)
        except QuotaExceeded:
            # Nothing was launched: AWS was asked while all was prepared. Who took over meanwhile keeps his run.
            current = deployment.run()
            if current is not None and current.run_id == run.run_id:
                deployment.stop()
            raise
    current = deployment.run()
    if current is None:
        name = deployment.name
        raise ClusterStopped(f"Cluster {name!r} was stopped while it was being started.", cluster=name, advice=f"terradask start {name}")
    if current.run_id != run.run_id:
        # Preparing took so long (a machine that slept) that somebody else took over.
        deployment.started_run_id = None
        return current
    deployment.groups.set_desired(SCHEDULER_GROUP, 1)
    # Where AWS can't deliver there, whoever is attached moves the rest on.
    for name, n in plan.numbers.items():
        deployment.groups.set_desired(deployment.descriptor.worker_groups[name][0], n)
    return run


def check_whole(deployment: Deployment) -> None:
    """Refuse to start what shall go and was destroyed in part.

    Raises
    ------
    ClusterError
        Naming the groups that are gone.
    """
    if not deployment.marked_closing:
        return
    gone = set(deployment.descriptor.groups) - set(deployment.groups.describe())
    if gone:
        raise ClusterError(
            f"Cluster {deployment.name!r} is destroyed in part: its destruction was begun and not finished.",
            cluster=deployment.name,
            given=f"without {', '.join(sorted(gone))}",
            advice=f"terradask destroy {deployment.name} finishes; terradask apply {deployment.name} makes it whole again",
        )


def claim(deployment: Deployment, run: Run) -> bool:
    """Describe a run where none is going on, and tell whether that was possible; S3 decides between several starters."""
    objects = deployment.objects
    if objects.claim(RUN, run.to_document()):
        objects.delete([CLOSING])
        return True
    found = objects.read_version(RUN)
    if found is None or deployment.goes_on(read_run(found[0])):
        return False
    # Over, or claimed by a start that was interrupted: whoever takes exactly its place clears what is left of it.
    if not objects.replace(RUN, run.to_document(), found[1]):
        return False
    deployment.write_journal(read_run(found[0]))
    objects.delete([CLOSING, SCHEDULER, *objects.names(HOSTS)])
    deployment.groups.zero()
    return True


def prepare(deployment: Deployment, plan: RunPlan) -> None:
    """Do all that must be there before a host boots."""
    from terradask._deployments.certificates import make_keys

    run, groups = plan.run, deployment.groups
    lifetime_seconds = (run.life or LifetimePolicy()).max_lifetime_seconds
    tags = {
        "terradask:run:id": run.run_id,
        "terradask:run:owner": run.owner,
        "terradask:run:started": run.started_at,
    }
    with ThreadPoolExecutor(4) as pool:
        waits = [
            pool.submit(deployment.objects.write_text, SOFTWARE, plan.software.to_requirements()),
            pool.submit(groups.tag, tags),
            pool.submit(groups.arm, min(DEAD_MAN_MINUTES, lifetime_seconds / 60)),
        ]
        # Keys are made while AWS answers.
        keys = make_keys(deployment.name, run.run_id, lifetime_days=lifetime_seconds / 86_400).to_document()
        secret_id = deployment.descriptor.secret_id
        waits.append(pool.submit(write_secret, deployment.aws, secret_id, keys, version_id=run.secret_version_id))
        for wait in waits:
            wait.result()
