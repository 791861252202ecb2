"""A plan's impact on running clusters: hosts that end or are cut off, lost resources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask._common.naming import counted, some
from terradask._plans.dangers import Danger
from terradask._plans.policy.values import AttributeChange
from terradask._plans.summary import Change, PlanSummary
from terradask.errors import InUse
from terradask_modules.kinds import KINDS
from terradask_modules.names import NETWORK_STACK, SCHEDULER_GROUP

_GROUP = "aws_autoscaling_group"
#: Actions that remove a resource.
LOST = ("delete", "replace")
#: How many resources to name before counting the rest.
_NAMED = 3
_NAMED_IN_ERROR = 5
_MOVE = "stop and start the cluster to move it completely"


@dataclass(frozen=True)
class RunningCluster:
    """A cluster that isn't stopped."""

    name: str
    #: Its state, as in `DeploymentStatus`.
    state: str
    #: The number of instances of each group, by the group's name in the cluster.
    instances: Mapping[str, int]

    @property
    def workers(self) -> int:
        """The number of instances in its worker groups."""
        return sum(number for group, number in self.instances.items() if group != SCHEDULER_GROUP)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {"name": self.name, "state": self.state, "workers": self.workers}


def may_affect(summary: PlanSummary) -> bool:
    """Return whether a plan can affect a running cluster, so that AWS must be asked."""
    return any(
        change.action in LOST or (change.action == "update" and change.type == _GROUP)
        for change in summary.changes
    )


def impacts(summary: PlanSummary, running: Iterable[RunningCluster]) -> tuple[Danger, ...]:
    """Return a plan's effects on running clusters."""
    found = _on_network if summary.stack == NETWORK_STACK else _on_cluster
    return tuple(danger for cluster in running for danger in found(summary, cluster))


def refuse_while_running(summary: PlanSummary, running: Iterable[RunningCluster]) -> None:
    """Refuse a plan that removes resources of running clusters. Raises `InUse`."""
    hit = [(one, lost) for one in running if (lost := _lost_resources(summary, one))]
    if hit:
        lost = list(dict.fromkeys(address for _, lost in hit for address in lost))
        running = sorted((one for one, _ in hit), key=lambda one: one.name)
        raise InUse(
            f"the plan of {summary.stack} deletes or replaces resources of running clusters",
            clusters=[one.name for one in running],
            given=f"{some(lost, _NAMED_IN_ERROR)}; "
            + ", ".join(
                f"{one.name} is {one.state} with {counted(one.workers, 'worker')}"
                for one in running
            ),
            allowed="such a plan while none of these clusters runs",
            advice="stop them, which ends their work: "
            + "; ".join(f"terradask stop {one.name}" for one in running)
            + "; then apply the plan again",
        )


def _lost_resources(summary: PlanSummary, cluster: RunningCluster) -> list[str]:
    return [change.address for change in summary.changes if _removes(change, cluster)]


def _removes(change: Change, cluster: RunningCluster) -> bool:
    if change.action not in LOST:
        return False
    if change.type == _GROUP:
        # A group without workers may be removed.
        return _group_effect(change, cluster) is not None
    # Terraform repeats a refused deletion for twenty minutes, halfway through the plan.
    # AWS (ec2-in-use)
    return bool(_loss_to_hosts(change))


def _on_network(summary: PlanSummary, cluster: RunningCluster) -> Iterator[Danger]:
    kinds = {change.address: change.type for change in summary.changes}
    lost = [
        change.address
        for change in summary.changes
        if change.action in LOST and change.follows is None
    ]
    # The worst first, whose address a report shows.
    lost.sort(key=lambda address: not KINDS[kinds[address]].loss if kinds[address] in KINDS else 1)
    if lost:
        yield Danger(
            "running",
            lost[0],
            f"cluster {cluster.name} is {cluster.state}, with {cluster.workers} workers, on a "
            f"network that loses {some(lost, _NAMED)}{_refused(summary, cluster)}",
        )


def _on_cluster(summary: PlanSummary, cluster: RunningCluster) -> Iterator[Danger]:
    for change in summary.changes:
        effects = _group_effect(change, cluster)
        if effects:
            refused = _refused(summary, cluster) if _removes(change, cluster) else ""
            yield Danger(
                "running",
                change.address,
                f"cluster {cluster.name} is {cluster.state}: {effects}{refused}",
            )


def _refused(summary: PlanSummary, cluster: RunningCluster) -> str:
    """Return a note for reports if `refuse_while_running` will refuse the plan."""
    taken = _lost_resources(summary, cluster)
    return f"; apply refuses it before `terradask stop {cluster.name}`" if taken else ""


def _group_effect(change: Change, cluster: RunningCluster) -> str | None:
    group = change.address.rpartition(".")[2]
    if change.action in LOST:
        if change.type != _GROUP:
            return _loss_to_hosts(change) or None
        if group == SCHEDULER_GROUP:
            return "its scheduler ends, and every client loses the cluster with its results"
        workers = cluster.instances.get(group, 0)
        return f"its {workers} workers end, with the results that they hold" if workers else None
    if change.type != _GROUP:
        return None
    # AWS (documented): Another launch template or other types of an Auto Scaling group apply only
    # to new instances.
    # https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_UpdateAutoScalingGroup.html
    values = {attribute.path: attribute for attribute in change.attributes}
    effects = (
        _shrunk_group_effect(group, values, cluster.instances.get(group, 0)),
        _moved_group_effect(group, values, cluster.instances.get(group, 0)),
    )
    return "; ".join(filter(None, effects)) or None


def _shrunk_group_effect(
    group: str, values: Mapping[str, AttributeChange], workers: int
) -> str | None:
    limit = values["max_size"].after if "max_size" in values else None
    if group != SCHEDULER_GROUP and isinstance(limit, int) and limit < workers:
        return (
            f"{workers - limit} of its {workers} workers end, since the group may have {limit} "
            "at most"
        )
    return None


def _moved_group_effect(
    group: str, values: Mapping[str, AttributeChange], hosts: int
) -> str | None:
    """Return the effect on hosts in a subnet that the group loses.

    terradask suspends ``AZRebalance``: hosts stay, and new ones start elsewhere.

    AWS (documented): Auto Scaling replaces instances in a removed subnet only if it balances zones.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/auto-scaling-benefits.html,
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/suspend-resume-considerations.html
    """
    subnets = values.get("vpc_zone_identifier")
    if subnets is None:
        return None
    before, after = (
        set(side) if isinstance(side, list) else set() for side in (subnets.before, subnets.after)
    )
    left = ", ".join(sorted(before - after))
    scheduler = group == SCHEDULER_GROUP
    if not left or not (scheduler or hosts):
        return None
    to = ", ".join(sorted(after)) or "a subnet known after the apply"
    if "suspended_processes" in values:
        # Suspended either before or after: the group rebalances before or after the change.
        lost = (
            "every client loses the cluster with its results"
            if scheduler
            else "with the results that they hold"
        )
        whose = "its scheduler is" if scheduler else f"its {hosts} workers are"
        return f"{whose} replaced, from {left} to {to}{': ' if scheduler else ', '}{lost}"
    if scheduler:
        return f"its scheduler stays in {left}, the next one starts in {to}: {_MOVE}"
    return (
        f"its {hosts} workers stay in {left}, new ones start in {to}, perhaps in another zone: "
        f"{_MOVE}"
    )


def _loss_to_hosts(change: Change) -> str:
    return KINDS[change.type].loss_to_hosts if change.type in KINDS else ""
