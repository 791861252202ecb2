"""The cluster's steps: start, compute, grow, a failing host, shrink, stop, start again, destroy."""

from __future__ import annotations

import contextlib
import datetime
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._aws.group_facts import has_left
from terradask._aws.group_limits import scheduled_actions
from terradask._aws.ssm.plugin import find_plugin
from terradask._common.polling import wait_until
from terradask._common.progress import Progress
from terradask._doctor.account_check.place import CLUSTER, SPOT_GROUP
from terradask._doctor.account_check.steps import Step, StepResult
from terradask.errors import SetupError, TerradaskError
from terradask_modules.names import WORKER_GROUP, group_name, log_group_name, market_group

if TYPE_CHECKING:
    from botocore.exceptions import ClientError

    from terradask._aws.autoscaling import Groups
    from terradask._aws.session import Aws
    from terradask._clusters.deployment import Deployment
    from terradask._dask.cluster import Cluster
    from terradask._workspace.workspace import Workspace
    from terradask_host.documents import HostReport

_RESULT_SECONDS = 60.0
_REPORT_SECONDS = 60.0
_LOG_SECONDS = 90.0
_HOSTS_SECONDS = 600.0
_FAILURE_SECONDS = 90.0
#: AWS (asg-shows-launches)
_SHOWN_SECONDS, _LONGEST_SHOWN_SECONDS = 5.0, 60.0
_wait_until = partial(wait_until, pause_seconds=1.0)
#: Number of a failed host's last log lines in the report.
_LOG_LINES = 5
#: AWS's name of the cluster's group on spot.
_ON_SPOT = market_group(SPOT_GROUP, "spot")


@dataclass
class ClusterLife:
    """The steps of one cluster, run as a user with the generated policies."""

    #: The workspace's folder, with its settings.
    folder: Path
    #: Loads the workspace with the current credentials.
    load: Callable[[], Workspace]
    progress: Progress
    _cluster: Cluster | None = None

    def steps(self, acting: Callable[[Any], Any]) -> list[Step]:
        """Return the steps; `acting` makes a step's function act as the user."""
        return [
            Step("cluster", "a scheduler and two workers start, one on spot", acting(self._start)),
            Step("reports", "every host replaces its report as its role", acting(self._reports)),
            Step("result", "every worker computes", acting(self._result)),
            Step("watchdog", "AWS's schedule would end the cluster", acting(self._watchdog)),
            Step("logs", "the hosts' logs arrive", self._logs),
            Step("session", "Session Manager leads to the scheduler", acting(self._session)),
            Step("grow", "a third worker joins", acting(self._grow)),
            Step("failure", "a host whose Dask is killed reports a failure", acting(self._failure)),
            Step("shrink", "hosts leave, by number and by name", acting(self._shrink)),
            Step("stop", "the cluster stops", acting(self._stop)),
            Step("start", "it starts again at once, and computes", acting(self._start_again)),
            Step("close", "closing sets the groups to zero", acting(self._close)),
            Step("destroy", "its stack is destroyed", acting(self._destroy)),
        ]

    def leave(self) -> None:
        """Release the cluster in any state; the removal steps remove it."""
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            with contextlib.suppress(Exception):
                cluster.close()

    # ---- parts -----------------------------------------------------------------------------------

    def _open(self, **arguments: Any) -> Cluster:
        from terradask._dask.cluster import Cluster

        return Cluster(
            CLUSTER, settings=self.folder, progress=self.progress, show_widget=False, **arguments
        )

    @property
    def _open_cluster(self) -> Cluster:
        assert self._cluster is not None, "steps run in order"
        return self._cluster

    @property
    def _deployment(self) -> Deployment:
        return self.load().deployment(CLUSTER)

    # ---- steps -----------------------------------------------------------------------------------

    def _start(self, result: StepResult) -> None:
        self._cluster = self._open(
            wait_for_workers=True, shutdown_on_close=False, timeout=_HOSTS_SECONDS
        )
        self._note_activities(result)
        joined = {name: len(one.observed) for name, one in self._cluster.worker_groups.items()}
        if joined != {WORKER_GROUP: 1, SPOT_GROUP: 1}:
            raise TerradaskError(
                "AWS has no capacity for the cluster's workers",
                given=joined,
                allowed="a worker on demand and one on spot",
                advice="try again later, or in another region; AWS's messages are in the report",
            )
        # A worker that AWS doesn't list is refused.
        result.assumptions["asg-lists-members"] = True

    def _reports(self, result: StepResult) -> None:
        def are_running() -> bool:
            return all(one.state == "running" for one in self._deployment.reports())

        _wait_until(are_running, limit_seconds=_REPORT_SECONDS)
        reports = self._deployment.reports()
        result.facts["seconds_by_state"] = {
            f"{one.group} {one.instance_id}": seconds_by_state(one) for one in reports
        }
        stuck = [one.describe() for one in reports if one.state != "running"]
        if stuck or len(reports) < 3:
            raise TerradaskError(
                "hosts run, but their reports don't show it",
                given="; ".join(stuck) or f"{len(reports)} reports",
                allowed="three reports, each replaced by its host until it is running",
                advice="search the hosts' logs for the refusal: each needs s3:GetObject and "
                "s3:PutObject on its report",
            )
        # A host goes without the tag of its run if that comes late.
        result.assumptions["imds-tags"] = all(one.run_id is not None for one in reports)

    def _result(self, result: StepResult) -> None:
        with self._open_cluster.get_client() as client:
            names = sorted(client.scheduler_info(n_workers=-1)["workers"])
            result.facts["workers"] = len(names)
            futures = [client.submit(sum, [i, 1], workers=[w]) for i, w in enumerate(names)]
            found = [future.result(timeout=_RESULT_SECONDS) for future in futures]
        if len(names) != 2 or found != [1, 2]:
            raise TerradaskError("two workers have to compute", given=found, allowed="[1, 2]")

    def _watchdog(self, result: StepResult) -> None:
        deployment = self._deployment
        client = deployment.aws.client("autoscaling")
        for name in deployment.groups.check_own():
            found = scheduled_actions(client, name)
            result.facts[name] = sorted(found)
            if f"{name}-dead-man" not in found:
                raise TerradaskError(
                    "a group has no watchdog schedule",
                    given=f"{name}: {', '.join(found) or 'no schedule'}",
                    allowed=f"{name}-dead-man",
                )

    def _logs(self, result: StepResult) -> None:
        hosts = {one.instance_id for one in self._deployment.reports()}

        def silent() -> set[str]:
            return hosts - {line.host for line in self._deployment.iter_logs()}

        if not _wait_until(lambda: not silent(), limit_seconds=_LOG_SECONDS):
            group = log_group_name(self.folder.name)
            raise TerradaskError(
                "the hosts' logs don't arrive in CloudWatch",
                given=f"no lines of {', '.join(sorted(silent()))} in {group}",
                advice="hosts need logs:CreateLogStream and logs:PutLogEvents",
            )

    def _session(self, result: StepResult) -> str | None:
        try:
            result.facts["plugin"] = find_plugin().version
        except SetupError as error:
            return error.problem
        with self._open(attach=True, connect="ssm") as cluster, cluster.get_client() as client:
            client.submit(sum, [1, 2]).result(timeout=_RESULT_SECONDS)
        return None

    def _grow(self, result: StepResult) -> None:
        self._open_cluster.scale({WORKER_GROUP: 2})
        groups, began = self._deployment.groups, time.monotonic()
        _wait_until(
            lambda: len(groups.describe()[WORKER_GROUP].members) == 2,
            limit_seconds=_LONGEST_SHOWN_SECONDS,
        )
        shown = time.monotonic() - began
        result.facts["seconds_until_shown"] = round(shown, 1)
        result.assumptions["asg-shows-launches"] = shown <= _SHOWN_SECONDS
        self._open_cluster.wait_for_workers(3, timeout=_HOSTS_SECONDS)
        self._note_activities(result)

    def _failure(self, result: StepResult) -> None:
        """Kill Dask on one host until the host gives up."""
        deployment, cluster = self._deployment, self._open_cluster
        (victim,) = deployment.groups.describe()[_ON_SPOT].active_ids
        result.facts["host"] = victim

        def report() -> HostReport | None:
            return next((one for one in deployment.reports() if one.instance_id == victim), None)

        def has_failed() -> bool:
            found = report()
            if found is not None and found.failed_once:
                return True
            _end_dask(cluster, victim)
            return False

        failed = _wait_until(has_failed, limit_seconds=_FAILURE_SECONDS)
        found = report()
        if found is not None:
            reasons = [reason for reason in found.reasons if reason]
            result.facts |= {"reasons": reasons, "log_tail": found.log_tail[-_LOG_LINES:]}
        if not failed:
            raise TerradaskError(
                "a host whose Dask was killed repeatedly didn't report a failure",
                given=None if found is None else found.describe(),
            )

    def _shrink(self, result: StepResult) -> None:
        deployment = self._deployment
        groups = deployment.groups
        survivor, leaving = groups.describe()[WORKER_GROUP].active_ids[:2]
        self._open_cluster.scale({SPOT_GROUP: 0})
        self._open_cluster.scale_down([leaving])
        # AWS's error for a leaving member, which the embedded AWS must repeat.
        refusal = _refusal(deployment.aws, deployment, leaving)
        if refusal is not None:
            result.text("{Code}: {Message}".format_map(refusal.response["Error"]))
            result.assumptions["asg-protection"] = has_left(refusal)
        result.facts["seconds_until_gone"] = {
            group: round(self._seconds_until(groups, group, number))
            for group, number in ((_ON_SPOT, 0), (WORKER_GROUP, 1))
        }
        left = groups.describe()[WORKER_GROUP].active_ids
        self._note_activities(result)
        if left != (survivor,):
            raise TerradaskError(
                "another host was terminated than the chosen one",
                given=", ".join(left) or "no host is left",
                allowed=survivor,
            )

    def _seconds_until(self, groups: Groups, group: str, number: int) -> float:
        """Wait until a group has this many members, and return the seconds."""
        began = time.monotonic()

        def is_there() -> bool:
            return len(groups.describe()[group].members) == number

        if not _wait_until(is_there, limit_seconds=_HOSTS_SECONDS):
            members = groups.describe()[group].members
            raise TerradaskError(
                "instances don't leave their group",
                given=", ".join(f"{one.instance_id} {one.lifecycle_state}" for one in members),
                allowed=f"{number} members",
            )
        return time.monotonic() - began

    def _stop(self, result: StepResult) -> None:
        self._open_cluster.stop()
        self._cluster = None

    def _start_again(self, result: StepResult) -> None:
        self._cluster = self._open(
            wait_for_workers=1, shutdown_on_close=True, timeout=_HOSTS_SECONDS
        )
        with self._cluster.get_client() as client:
            client.submit(sum, [1, 2]).result(timeout=_RESULT_SECONDS)

    def _close(self, result: StepResult) -> None:
        self._open_cluster.close()
        self._cluster = None
        wanted = {
            name: group.desired
            for name, group in self._deployment.groups.describe().items()
            if group.desired
        }
        if wanted:
            raise TerradaskError("groups of a closed cluster still want instances", given=wanted)

    def _destroy(self, result: StepResult) -> None:
        self.load().destroy_cluster(CLUSTER)

    def _note_activities(self, result: StepResult) -> None:
        deployment = self._deployment
        since = datetime.datetime.now(datetime.UTC) - datetime.timedelta(hours=1)
        for name in deployment.groups.names:
            for activity in deployment.groups.activities(name, since):
                for key in ("Description", "Cause", "StatusMessage"):
                    result.text(activity.get(key))


def seconds_by_state(report: HostReport) -> dict[str, float]:
    """Return the seconds in each state, except the last."""
    times = [(state, datetime.datetime.fromisoformat(at)) for state, at in report.history]
    found: dict[str, float] = {}
    for (state, since), (_, until) in pairwise(times):
        found[state] = found.get(state, 0) + (until - since).total_seconds()
    return found


def _end_dask(cluster: Cluster, host: str) -> None:
    """Kill the Dask process on a host, if its worker is connected."""
    with cluster.get_client() as client:
        workers: Mapping[str, Any] = client.scheduler_info(n_workers=-1)["workers"]
        addresses = [address for address, one in workers.items() if one["name"] == host]
        if addresses:
            with contextlib.suppress(Exception):
                client.run(os._exit, 1, workers=addresses, nanny=True, on_error="ignore")


def _refusal(aws: Aws, deployment: Deployment, instance_id: str) -> ClientError | None:
    """Return AWS's refusal of a call about a leaving instance; the call changes nothing."""
    from botocore.exceptions import ClientError

    descriptor = deployment.descriptor
    name = group_name(descriptor.workspace, deployment.name, WORKER_GROUP)
    try:
        aws.client("autoscaling").set_instance_protection(
            AutoScalingGroupName=name, InstanceIds=[instance_id], ProtectedFromScaleIn=False
        )
    except ClientError as error:
        return error
    return None
