"""The firewall of one cluster by itself: its hosts talk to each other, and to no other
cluster's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from terradask_modules.aws import Construct
from terradask_modules.ingress import Ingress, Ports
from terradask_modules.names import SCHEDULER_PORTS
from terradask_modules.security_groups import SecurityGroups
from terradask_modules.where import Where


class ClusterFirewall(SecurityGroups):
    """Security groups of a cluster's own schedulers and workers.

    They say which of the cluster's hosts reach which. What hosts reach outside is said by a group
    of the network's that its hosts are in besides, ``hosts`` of
    :class:`terradask_modules.firewall.Firewall`. So is what reaches the scheduler from outside, by
    ``clients``, unless the cluster has rules of its own.

    Resources created: two security groups, six rules, one for each range of ports of `ingress`, and
    one out to a scheduler's port below 1024. They cost nothing.

    Parameters
    ----------
    where
        The cluster.
    vpc_id
        The VPC.
    ingress
        Who may reach the scheduler from outside, beside what the network's groups say.
    scheduler_ports
        What workers reach of the scheduler.
    tags
        Tags of every group and rule.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        where: Where,
        vpc_id: str,
        ingress: Sequence[Ingress] = (),
        scheduler_ports: Ports = SCHEDULER_PORTS,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, vpc_id=vpc_id, tags=tags)
        #: Role -> id of its group.
        self.ids = {
            role: self._group(
                role,
                where.host_name(role),
                f"Dask {role}s of cluster {where.cluster} in workspace {where.workspace}",
            )
            for role in ("scheduler", "worker")
        }
        scheduler, worker = self.ids["scheduler"], self.ids["worker"]
        self._admit_dask(scheduler, worker, [scheduler_ports])
        self._admit_clients("scheduler", scheduler, ingress)
        self._let_out_to_peers(scheduler, worker, "cluster", [scheduler_ports])
