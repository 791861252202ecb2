"""The firewall: connections are closed unless a rule here opens them; each rule has a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from terradask_modules.aws import Construct
from terradask_modules.egress import (
    VPC_IPV6,
    Egress,
    in_vpc,
    named_clusters,
    outside_group,
    rules_of,
)
from terradask_modules.ingress import (
    ANYWHERE,
    ANYWHERE_IPV6,
    Ingress,
    Ports,
    shared_scheduler_ports,
)
from terradask_modules.names import SCHEDULER_PORTS, resource_name
from terradask_modules.security_groups import SecurityGroups
from terradask_modules.where import Where

_HTTPS = (443, 443)


class Firewall(SecurityGroups):
    """Security groups of schedulers and workers, and of interface endpoints where there are some.

    Schedulers accept the configured addresses and, on the same ports, workers; workers accept only
    schedulers and workers. Hosts may reach the network itself, S3, and port 443. In a VPC with
    other contents, the network itself means each other.

    For isolated clusters, two more groups have the rules for the outside: ``clients``, which reach
    schedulers, and ``hosts``, for hosts' destinations. No rule uses either between hosts. Each
    cluster that `egress` names has one more, ``hosts-NAME``, with the destinations of it alone.

    Resources created: two to five security groups, one for each named cluster, and their rules, one
    resource each. They cost nothing.

    Parameters
    ----------
    vpc_cidr
        Its block, all of which hosts may reach. None: hosts may only reach each other, in a VPC
        with other contents.
    s3_prefix_list_id
        Prefix list of the S3 endpoint. None: S3 is reached like every other service.
    ingress
        Addresses and ports that may reach schedulers.
    internet_for_workers
        Workers may reach port 443 anywhere; pointless without a route.
    endpoints
        Make a group for interface endpoints.
    egress
        Further destinations of hosts.
    vpc_blocks
        The blocks of the VPC, for rules whose destination is ``vpc``.
    vpc_ipv6_cidr
        The block that AWS has chosen for ``vpc-ipv6`` among these.
    dual_stack
        Hosts may reach port 443 over IPv6 as well, wherever they may over IPv4.
    isolated
        Make the groups for hosts of clusters that have their own groups.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        vpc_id: str,
        vpc_cidr: str | None,
        s3_prefix_list_id: str | None,
        ingress: Sequence[Ingress],
        internet_for_workers: bool,
        endpoints: bool,
        egress: Sequence[Egress] = (),
        vpc_blocks: Sequence[str] = (),
        vpc_ipv6_cidr: str = "",
        dual_stack: bool = False,
        isolated: bool = False,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, vpc_id=vpc_id, tags=tags)
        self._workspace = workspace
        self._egress = in_vpc(egress, vpc_blocks)
        self._blocks = {VPC_IPV6: vpc_ipv6_cidr}
        self.scheduler_id = self._named("scheduler", "Dask schedulers")
        self.worker_id = self._named("worker", "Dask workers")
        self._admit_clients("scheduler", self.scheduler_id, ingress)
        # Isolated clusters open their schedulers' ports themselves.
        ports = shared_scheduler_ports(() if isolated else (rule.ports for rule in ingress))
        self._admit_dask(self.scheduler_id, self.worker_id, ports)
        if vpc_cidr is None:
            self._let_out_to_peers(self.scheduler_id, self.worker_id, "workspace", ports)
        for role, group_id, internet in (
            ("scheduler", self.scheduler_id, True),
            ("worker", self.worker_id, internet_for_workers),
        ):
            self._let_out_to_network(role, group_id, vpc_cidr, s3_prefix_list_id)
            if internet:
                self._let_out_to_internet(role, group_id, dual_stack)
            self._let_out(role, group_id, rules_of(self._egress), self._blocks)
        callers = {"scheduler": self.scheduler_id, "worker": self.worker_id}
        #: Role of such a group -> its id; empty unless clusters are isolated.
        self.outside: dict[str, str] = {}
        if isolated:
            self.outside = self._face_the_outside(ingress, dual_stack)
            callers["hosts"] = self.outside["hosts"]
        self.endpoints_id = self._guard_endpoints(callers) if endpoints else None

    def _named(self, name: str, description: str) -> str:
        return self._group(
            name,
            resource_name(self._workspace, name),
            f"{description} of terradask workspace {self._workspace}",
        )

    def _face_the_outside(self, ingress: Sequence[Ingress], dual_stack: bool) -> dict[str, str]:
        clients = self._named("clients", "Who reaches schedulers of isolated clusters")
        self._admit_clients("clients", clients, ingress)
        hosts = self._named("hosts", "What hosts of isolated clusters reach")
        self._let_out_to_internet("hosts", hosts, dual_stack)
        self._let_out("hosts", hosts, rules_of(self._egress), self._blocks)
        outside = {"clients": clients, "hosts": hosts}
        for cluster in named_clusters(self._egress):
            name = outside_group(cluster)
            outside[name] = self._named(name, f"What hosts of cluster {cluster} alone reach")
            self._let_out(name, outside[name], rules_of(self._egress, cluster), self._blocks)
        return outside

    def _guard_endpoints(self, callers: Mapping[str, str]) -> str:
        endpoints = self._named("endpoints", "Interface endpoints of AWS services")
        for name, group_id in callers.items():
            why = (
                "AWS services, called by hosts of isolated clusters"
                if name == "hosts"
                else f"AWS services, called by {name} hosts"
            )
            self._rule("in", f"endpoints-from-{name}", endpoints, _HTTPS, why, group=group_id)
        return endpoints

    def _let_out_to_network(
        self, role: str, group_id: str, vpc_cidr: str | None, s3_prefix_list_id: str | None
    ) -> None:
        if vpc_cidr is not None:
            self._rule(
                "out",
                f"{role}-to-vpc",
                group_id,
                None,
                "Hosts and endpoints in the network",
                cidr_ipv4=vpc_cidr,
            )
        if s3_prefix_list_id is not None:
            self._rule(
                "out",
                f"{role}-to-s3",
                group_id,
                _HTTPS,
                "S3 through its gateway endpoint",
                prefix_list_id=s3_prefix_list_id,
            )

    def _let_out_to_internet(self, role: str, group_id: str, dual_stack: bool) -> None:
        self._rule(
            "out",
            f"{role}-to-https",
            group_id,
            _HTTPS,
            "AWS services and package indexes",
            cidr_ipv4=ANYWHERE,
        )
        if dual_stack:
            self._rule(
                "out",
                f"{role}-to-https-ipv6",
                group_id,
                _HTTPS,
                "AWS services and package indexes, over IPv6",
                cidr_ipv6=ANYWHERE_IPV6,
            )


class ClusterFirewall(SecurityGroups):
    """Security groups of a cluster's own schedulers and workers.

    They allow connections between the cluster's hosts. The network's group ``hosts`` of
    :class:`Firewall` has the rules for hosts' destinations outside, and ``clients`` those for
    clients of the scheduler, unless the cluster has its own rules.

    Resources created: two security groups, six rules, one for each range of ports of `ingress`, and
    one out to a scheduler's port below 1024. They cost nothing.

    Parameters
    ----------
    ingress
        Additional addresses and ports that may reach the scheduler from outside.
    scheduler_ports
        The scheduler's ports for workers.
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
