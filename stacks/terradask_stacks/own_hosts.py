"""A cluster's own launch templates; for an isolated cluster also roles and security groups."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from terradask_modules.aws import Construct, Fn, Token
from terradask_modules.egress import outside_group
from terradask_modules.firewall import ClusterFirewall
from terradask_modules.identity import Identity, RoleRules
from terradask_modules.ingress import Ingress, Ports
from terradask_modules.launch_templates import HostTemplate, Templates
from terradask_modules.names import ROLES, SCHEDULER_PORTS
from terradask_modules.policies import PolicyScope
from terradask_stacks.settings.disks import Disk

#: Terraform's reference to the text of ``workspace.json``.
BASELINE_BODY = "data.aws_s3_object.baseline.body"


@dataclass(frozen=True)
class Baseline:
    """``workspace.json`` as a Terraform expression."""

    document: Any

    def value(self, *path: str) -> Any:
        """Return the value at a path, of any type."""
        return Fn.lookup_nested(self.document, list(path))

    def text(self, *path: str) -> str:
        """Return the text at a path; numbers and booleans as Terraform writes them."""
        return Token.as_string(self.value(*path))

    def optional(self, name: str) -> str:
        """Return the text under a name; null if it is unset, or the network's version doesn't have
        it.
        """
        # The framework's own `try` loses a null.
        return f"${{try(jsondecode({BASELINE_BODY}).{name}, null)}}"

    def encryption(self) -> str:
        """Return how the workspace's bucket encrypts objects, in S3's words."""
        key = f"try(jsondecode({BASELINE_BODY}).kms_key_arn, null)"
        return f'${{{key} == null ? "AES256" : "aws:kms"}}'

    def list_or_none(self, *path: str) -> Any:
        """Return the list at a path; an empty one if the network's version doesn't have it."""
        return Fn.try_([self.value(*path), []])

    def outside(self, *groups: str) -> str:
        """Return the first of the network's groups for the outside that it has."""
        paths = [self.value("isolated", "security_groups", group) for group in groups]
        return Token.as_string(Fn.try_(paths))

    def number(self, *path: str) -> Any:
        """Return the number at a path."""
        return Token.as_number(self.value(*path))


@dataclass(frozen=True, kw_only=True)
class OwnTemplates:
    """The input of a cluster's own launch templates, based on the network's data."""

    #: What the cluster's hosts may do, and where.
    hosts: PolicyScope
    architecture: str
    #: The network's data.
    baseline: Baseline
    #: Role, or group of workers -> its volume, if that differs from the network's.
    disks: Mapping[str, Disk]
    #: Tags of every resource, and of what is launched.
    tags: Mapping[str, str]
    #: The ingress to an isolated cluster's scheduler. None: the network's rules.
    ingress: Sequence[Ingress] | None = None
    #: The same for logging in, beside either.
    ssh: Sequence[Ingress] = ()
    #: The scheduler's ports for workers of an isolated cluster.
    scheduler_ports: Ports = SCHEDULER_PORTS
    #: The roles and groups of workers whose hosts have the image with drivers.
    with_gpus: Collection[str] = ()
    #: Role or group of workers whose hosts run in a capacity block -> its type.
    blocks: Mapping[str, str] = field(default_factory=dict)

    def isolated(self, scope: Construct) -> Mapping[str, Any]:
        """Create roles, security groups and launch templates; return role, or group of workers with
        disks of its own -> template.

        External rules, such as ingress to schedulers, stay with the network: changing them changes
        no cluster, except those with their own ingress.
        """
        where, baseline = self.hosts.where, self.baseline
        firewall = ClusterFirewall(
            scope,
            where=where,
            vpc_id=baseline.text("vpc_id"),
            ingress=[*(self.ingress or ()), *self.ssh],
            scheduler_ports=self.scheduler_ports,
            tags=self.tags,
        )
        rules = RoleRules(
            path=baseline.text("isolated", "role_path"),
            name_prefix=baseline.text("isolated", "role_name_prefix"),
            permissions_boundary=baseline.text("isolated", "permissions_boundary"),
        )
        shared = [
            baseline.value("isolated", "access"),
            baseline.list_or_none("isolated", "task_rights", where.cluster or ""),
        ]
        access = {
            "scheduler": Fn.concat(
                [*shared, baseline.list_or_none("isolated", "scheduler_access")]
            ),
            "worker": Fn.concat(shared),
        }
        roles = Identity(scope, hosts=self.hosts, rules=rules, access=access, tags=self.tags).roles
        outside = {
            "scheduler": ("hosts",) if self.ingress is not None else ("hosts", "clients"),
            "worker": ("hosts",),
        }
        # Without destinations of its own, a cluster has the common group twice, which is once.
        own_outside = baseline.outside(outside_group(str(where.cluster)), "hosts")
        groups = {
            role: [
                firewall.ids[role],
                *(baseline.text("isolated", "security_groups", group) for group in outside[role]),
                own_outside,
            ]
            for role in ROLES
        }
        own = [(role, None) for role in ROLES] + [("worker", group) for group in self._groups]
        return self._templates(
            scope,
            [
                self._host(role, group, groups[role], {"arn": roles[role].profile_arn})
                for role, group in own
            ],
        )

    def shared(self, scope: Construct) -> Mapping[str, Any]:
        """Create only launch templates, for roles and groups of workers with the cluster's own
        disks; return them by these.
        """
        baseline = self.baseline
        hosts = [
            self._host(
                role,
                group,
                [baseline.text("security_groups", role)],
                {"name": baseline.text("instance_profiles", role)},
            )
            for role, group in [
                *((role, None) for role in ROLES if role in self.disks),
                *(("worker", group) for group in self._groups),
            ]
        ]
        return self._templates(scope, hosts) if hosts else {}

    @property
    def _groups(self) -> list[str]:
        return [name for name in self.disks if name not in ROLES]

    def _host(
        self,
        role: str,
        group: str | None,
        security_groups: Sequence[str],
        profile: Mapping[str, str],
    ) -> HostTemplate:
        baseline, disk = self.baseline, self.disks.get(group or role, Disk())
        gpu = "gpu_" if (group or role) in self.with_gpus else ""
        return HostTemplate(
            role=role,
            group=group,
            architecture=self.architecture,
            image_id=baseline.text("launch", f"{gpu}image_ids", self.architecture),
            disk_size_gib=disk.size_gib or baseline.number("launch", f"{gpu}disk_size_gib", role),
            disk_throughput_mibps=disk.throughput_mibps,
            security_group_ids=security_groups,
            public_address=baseline.text("launch", "public_address", role),
            kms_key_arn=baseline.optional("kms_key_arn"),
            profile=profile,
            block_type=self.blocks.get(group or role),
        )

    def _templates(self, scope: Construct, hosts: list[HostTemplate]) -> Mapping[str, Any]:
        templates = Templates(
            scope,
            where=self.hosts.where,
            hosts=hosts,
            user_data_base64=self.baseline.text("launch", "user_data_base64"),
            tags=self.tags,
        )
        return {
            name: by_architecture[self.architecture]
            for name, by_architecture in templates.by_name.items()
        }
