"""A cluster, deployed and therefore stopped: its groups at zero, an empty secret, a descriptor."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from terradask_modules.aws import Construct, Fn, TerraformStack, Token
from terradask_modules.cluster_objects import cluster_description, keys_secret, workspace_text
from terradask_modules.errors import InvalidInput
from terradask_modules.group import ClusterPlacement, InstanceGroup
from terradask_modules.names import (
    ROLES,
    SCHEDULER_PORTS,
    TAG_CLUSTER,
    TAG_DESCRIPTOR,
    TAG_GROUP,
    TAG_ROLE,
    cluster_key,
)
from terradask_modules.policies import PolicyScope
from terradask_modules.secret_policy import private_policy
from terradask_modules.task_rights import TaskPolicy
from terradask_stacks.base import configure, merged, workspace_tags
from terradask_stacks.groups import ClusterGroup, groups_of
from terradask_stacks.ingress import openings
from terradask_stacks.lock import ClusterLock
from terradask_stacks.own_hosts import Baseline, OwnTemplates
from terradask_stacks.settings import ClusterSettings, WorkspaceSettings
from terradask_stacks.settings.disks import Disk
from terradask_stacks.version import terradask_version
from terradask_stacks.worker_disks import (
    GPU,
    disk_conditions,
    disk_path,
    gpu_conditions,
    has_gpu_image,
    locked_disk,
    name_of,
)

CLUSTER_FORMAT = 1
WORKSPACE_FORMAT = 1


class ClusterStack(TerraformStack):
    """One cluster on a standing baseline.

    It reads the baseline from ``workspace.json`` in the workspace's bucket when it is planned, and
    refers to launch templates by their version numbers: upgrading the network replaces no running
    host.

    Resources created: an Auto Scaling group for the scheduler and one for each market of each group
    of workers, all at zero; a secret without a value; ``cluster.json`` in the bucket; launch
    templates, if it has disks of its own; a placement group, if it asks for one. In an isolating
    workspace also: the resources of :class:`terradask_modules.identity.Identity`,
    :class:`~terradask_modules.firewall.ClusterFirewall` and
    :class:`~terradask_modules.launch_templates.Templates`. A stopped cluster costs only its secret.

    If applying is interrupted, applying again finishes; destroying removes what was made. The state
    lies in the workspace's bucket, so any machine can do either.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        name: str,
        workspace: WorkspaceSettings,
        cluster: ClusterSettings,
        lock: ClusterLock,
        kms_key_arn: str | None = None,
        version: str | None = None,
    ) -> None:
        super().__init__(scope, name)
        self._version = version or terradask_version()
        self._name = name
        self._workspace = workspace
        self._cluster = cluster
        self._lock = lock
        self._groups = groups_of(cluster, lock)
        self._where = where = workspace.where(lock.account, lock.partition).of_cluster(name)
        self._tags = merged(workspace_tags(workspace), cluster.tags, {TAG_CLUSTER: name})
        configure(
            self,
            workspace,
            bucket=where.bucket,
            key=cluster_key(name, "terraform.tfstate"),
            kms_key_arn=kms_key_arn,
        )
        baseline = self._baseline()
        content = json.dumps(self._description(), indent=1, sort_keys=True)
        secret = keys_secret(
            self,
            where,
            kms_key_id=baseline.optional("kms_key_arn"),
            policy=self._secret_policy(baseline),
            tags={**self._tags, **self._binding(content)},
        )
        templates = self._templates(baseline)
        placed = ClusterPlacement(self, where=where).name if cluster.placement_group else None
        groups = [
            self._group(group, baseline, *templates[name_of(group)], placed)
            for group in self._groups
        ]
        cluster_description(
            self,
            where,
            content,
            encryption=baseline.encryption(),
            kms_key_id=baseline.optional("kms_key_arn"),
            # Last, so that a cluster with a description is complete.
            depends_on=[secret, *(group.resource for group in groups)],
        )

    def _baseline(self) -> Baseline:
        """Read ``workspace.json`` when planning, and refuse one that this version can't use."""
        text = workspace_text(self, self._where.bucket, self._postconditions())
        return Baseline(Fn.jsondecode(text))

    def _postconditions(self) -> list[tuple[str, str]]:
        architecture, workspace = self._lock.architecture, self._workspace.name
        isolation = self._workspace.isolation
        return [
            (
                f"${{try(jsondecode(self.body).format, 0) == {WORKSPACE_FORMAT}}}",
                f"The network of workspace {workspace} was deployed by another version of "
                "terradask: this one "
                f"({self._version}) reads workspace.json of format {WORKSPACE_FORMAT}. Run: "
                "terradask apply network "
                "(it replaces no running host), or use the version that deployed it.",
            ),
            *(
                (
                    f'${{try(contains(keys(jsondecode(self.body).zones), "{zone}"), false)}}',
                    f"The network of workspace {workspace} has no subnets in zone {zone}, where "
                    "the cluster was planned to be. Add it to "
                    "network.zones (to network.subnets in a given VPC) and run: terradask apply "
                    "network; or choose zones anew: terradask "
                    f"plan --refresh {self._name}.",
                )
                for zone in sorted({zone for group in self._groups for zone in group.zones})
            ),
            (
                f'${{try(jsondecode(self.body).templates.worker["{architecture}"].id, "") != ""}}',
                f"The network of workspace {workspace} has no launch templates for "
                f"{architecture}. Name it in network.architectures "
                "and run: terradask apply network.",
            ),
            (
                f'${{try(jsondecode(self.body).isolation, "workspace") == "{isolation}"}}',
                f"The network of workspace {workspace} was deployed with another "
                f"workspace.isolation than {isolation}, which is set "
                "here. Set what it was deployed with, or run: terradask apply network.",
            ),
            *disk_conditions(self._name, self._workspace, self._cluster, self._lock),
            *gpu_conditions(self._workspace, self._groups, self._lock),
            *self._port_opened(),
        ]

    def _port_opened(self) -> list[tuple[str, str]]:
        port, (first, last) = self._cluster.scheduler_port, SCHEDULER_PORTS
        if self._workspace.isolation == "cluster" or first <= port <= last:
            return []
        spans = "jsondecode(self.body).scheduler_ports"
        return [
            (
                f"${{try(anytrue([for span in {spans} : span[0] <= {port} && {port} <= span[1]]), "
                "false)}",
                f"The network of workspace {self._workspace.name} doesn't open port {port} of "
                f'schedulers to workers. Add {{ ports = [{port}], cidr = "YOUR.ADDRESS/32" }} to '
                "network.ingress, if it isn't there, and run: terradask apply network.",
            )
        ]

    def _secret_policy(self, baseline: Baseline) -> str | None:
        lock, creator = self._lock, self._lock.creator
        if not self._cluster.private_to_creator:
            return None
        if creator is None:
            raise InvalidInput(
                "a cluster is private to its creator, and its locked answers name none",
                allowed="answers that were found since private_to_creator is set",
                advice="plan the cluster once: terradask plan NAME records its creator",
            )
        host_roles = [self._host_role(role, baseline) for role in ROLES]
        principals = [creator, *self._cluster.secret_principals]
        return private_policy(
            principals, host_roles, account=lock.account, partition=lock.partition
        )

    def _binding(self, content: str) -> dict[str, str]:
        """Return the tag that binds ``cluster.json`` to a private cluster's secret, whose tags
        others can't change: starts compare it, since they take from the document what hosts run.
        """
        if not self._cluster.private_to_creator:
            return {}
        return {TAG_DESCRIPTOR: hashlib.sha256(content.encode()).hexdigest()}

    def _host_role(self, role: str, baseline: Baseline) -> str:
        """Return the ARN of the hosts' role; an isolated cluster's future one, so that plans show
        it.
        """
        if self._workspace.isolation != "cluster":
            return baseline.text("roles", role)
        path, prefix = (
            baseline.text("isolated", name) for name in ("role_path", "role_name_prefix")
        )
        return self._where.iam_arn(f"role{path}{self._where.role_name(role, prefix)}")

    def _templates(self, baseline: Baseline) -> dict[str, tuple[str, str]]:
        """Return the id and the version of each group's launch template, the workspace's or this
        cluster's own: by role, and by the names of groups of workers.
        """
        workspace, lock = self._workspace, self._lock
        groups = {name_of(group): group for group in self._groups}
        with_gpus = {name for name, group in groups.items() if has_gpu_image(group, lock)}
        disks = self._cluster.own_disks if lock.network_disks_gib is None else {}
        blocks = {name: group.instance_types[0] for name, group in groups.items() if group.is_block}
        # A group whose image isn't that of the other workers can't share their template, nor one
        # with a capacity block.
        alike = {
            name
            for name in groups
            if name == "worker"
            or (
                (name in with_gpus) == ("worker" in with_gpus)
                and not blocks.keys() & {name, "worker"}
            )
        }
        disks |= {name: disks.get(name, disks.get("worker", Disk())) for name in sorted(blocks)}
        if "worker" in disks or workspace.isolation == "cluster":
            apart = groups.keys() - alike - disks.keys() - set(ROLES)
            disks |= {name: disks.get("worker", Disk()) for name in sorted(apart)}
        own = OwnTemplates(
            hosts=PolicyScope(
                where=self._where,
                groups=[group.key for group in self._groups],
                task_policies=[TaskPolicy(arn=arn) for arn in lock.task_policies],
            ),
            architecture=lock.architecture,
            baseline=baseline,
            disks=disks,
            tags=self._tags,
            ingress=None if (ingress := self._cluster.own_ingress) is None else openings(ingress),
            ssh=openings(self._cluster.ssh_ingress),
            scheduler_ports=self._cluster.ports_for_workers,
            with_gpus=with_gpus,
            blocks=blocks,
        )
        made = own.isolated(self) if workspace.isolation == "cluster" else own.shared(self)
        return {
            name: self._template(
                made.get(name, made.get("worker") if name in alike else None)
                if group.role == "worker"
                else made.get(name),
                baseline,
                group,
            )
            for name, group in groups.items()
        }

    def _template(self, made: Any, baseline: Baseline, group: ClusterGroup) -> tuple[str, str]:
        """Return the id and the version of a template of the cluster's own, or of the network's."""
        if made is not None:
            return made.id, Token.as_string(made.latest_version)
        path = [
            *([GPU] if has_gpu_image(group, self._lock) else []),
            *disk_path(group.role, locked_disk(self._lock, group.role, name_of(group))),
            self._lock.architecture,
        ]
        return baseline.text(*path, "id"), baseline.text(*path, "version")

    def _group(
        self,
        group: ClusterGroup,
        baseline: Baseline,
        template_id: str,
        template_version: str,
        placement_group: str | None,
    ) -> InstanceGroup:
        return InstanceGroup(
            self,
            group=group.key,
            name=self._where.group_name(group.key),
            max_size=group.max_size,
            subnet_ids=[
                baseline.text("zones", zone, f"{group.role}_subnet_id") for zone in group.zones
            ],
            template_id=template_id,
            template_version=template_version,
            instance_types=group.instance_types,
            market=group.market,
            placement_group=placement_group,
            reservation=group.reservation,
            is_block=group.is_block,
            standby=group.standby,
            tags=merged(self._tags, {TAG_ROLE: group.role, TAG_GROUP: group.key}),
        )

    def _description(self) -> Mapping[str, Any]:
        workspace, cluster, name = self._workspace, self._cluster, self._name
        return {
            "format": CLUSTER_FORMAT,
            "terradask_version": self._version,
            "workspace": workspace.name,
            "cluster": name,
            "region": workspace.region,
            "bucket": self._where.bucket,
            "zone": self._lock.zone,
            "groups": {
                group.key: {
                    "autoscaling_group": self._where.group_name(group.key),
                    "role": group.role,
                    "max_size": group.max_size,
                    "market": group.market,
                    "zones": list(group.zones),
                    **(
                        {"worker_group": group.worker_group, "resources": dict(group.resources)}
                        if group.role == "worker"
                        else {}
                    ),
                }
                for group in self._groups
            },
            "secret_id": self._where.secret_id,
            "scheduler": scheduler_entry(cluster),
            "worker": {
                "class": cluster.worker_class,
                "options": cluster.worker_options,
                "workers_per_host": cluster.workers_per_host,
            },
            "settings": cluster.model_dump(mode="json"),
            "lock": self._lock.model_dump(mode="json"),
        }


# ---- what ``cluster.json`` says of the scheduler -------------------------------------------------


def scheduler_entry(cluster: ClusterSettings) -> dict[str, Any]:
    """Return what the scheduler's host runs, and where it listens."""
    return {
        "class": cluster.scheduler_class,
        "options": cluster.scheduler_options,
        "port": cluster.scheduler_port,
        "dashboard_port": cluster.dashboard_port,
        **(
            {"dashboard_https_port": cluster.dashboard_https_port}
            if cluster.use_dashboard_https
            else {}
        ),
        "extra_worker": cluster.extra_worker_on_scheduler,
        **({"jupyter": True} if cluster.jupyter else {}),
        "performance_report": cluster.performance_report,
        "metrics": cluster.metrics,
    }
