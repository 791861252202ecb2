"""The account in which attackers act: clusters of theirs and of others, a private one, foreign
things; and how it becomes again what it was.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from terradask import Workspace
from terradask_modules.names import bucket_name
from terradask_simulator import Simulator

from ...simulator.acting import ACCOUNT, REGION, Account
from .foreign import put_keys
from .reach import TAG_CLUSTER
from .snapshot import Change, Lens, Snapshot, Thing, changes


@dataclass
class Stage:
    """An embedded AWS with everything on it.

    Parameters
    ----------
    simulator
        The embedded AWS.
    workspace
        The name of the workspace whose clusters are attacked.
    load
        Loads it anew, as the administrator.
    owner
        The account's owner, who sees and mends everything.
    clusters
        The names of the clusters that are deployed.
    """

    simulator: Simulator
    workspace: str
    load: Callable[[], Workspace]
    owner: Account
    clusters: Sequence[str] = ()
    lens: Lens = field(init=False)
    base: Snapshot = field(init=False)
    genuine: dict[str, bytes] = field(default_factory=dict)
    _bodies: dict[str, bytes] = field(default_factory=dict)
    _groups: dict[str, dict[str, Any]] = field(default_factory=dict)
    _clients: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lens = Lens(self.owner)

    @property
    def bucket(self) -> str:
        return bucket_name(self.workspace, ACCOUNT, REGION)

    def _client(self, service: str) -> Any:
        if service not in self._clients:
            self._clients[service] = self.owner.client(service)
        return self._clients[service]

    def deploy(self) -> None:
        """Apply every cluster, and give their secrets values."""
        plans = [self.load().plan_cluster(name) for name in self.clusters]
        with ThreadPoolExecutor(len(plans)) as pool:
            list(pool.map(lambda plan: self.load().apply(plan), plans))
        put_keys(self.owner, self.workspace, self.clusters)

    def deploy_anew(self) -> None:
        """Destroy what is left of the clusters that aren't what they were, and apply them.

        An apply alone would stop at what others have added: it is against the policy.
        """
        left = changes(self.base, self.lens.take())
        broken = {change.tags.get(TAG_CLUSTER, "") for change in left} - {""}
        for name in sorted(broken.intersection(self.clusters) or self.clusters):
            self.load().destroy_cluster(name)
        self.deploy()

    def settle(self, cluster: str) -> None:
        """Take what there is now as what it shall be, with a cluster's documents as genuine."""
        self.base = self.lens.take()
        s3 = self._client("s3")
        for (kind, name), thing in self.base.items():
            bucket, _, key = name.partition("/")
            if kind == "object" and bucket == self.bucket and _current(thing):
                self._bodies[name] = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        prefix = f"{self.bucket}/clusters/{cluster}/"
        self.genuine = {
            name.rpartition("/")[2]: body
            for name, body in self._bodies.items()
            if name.startswith(prefix)
        }
        found = self._client("autoscaling").describe_auto_scaling_groups()
        self._groups = {row["AutoScalingGroupName"]: row for row in found["AutoScalingGroups"]}

    def restore(self) -> list[Change]:
        """Undo every change; return what differs still."""
        for _ in range(4):
            now = self.lens.take()
            left = [one for one in changes(self.base, now) if not self._is_made_again(one)]
            if not left:
                self.base = now
                break
            for change in sorted(left, key=lambda one: _ORDER.index(one.kind)):
                # What went with another thing that was undone.
                with contextlib.suppress(ClientError):
                    self._undo(change)
        return left

    def clear(self, before: Snapshot) -> None:
        """Remove what wasn't there before."""
        for change in sorted(
            changes(before, self.lens.take()), key=lambda one: _ORDER.index(one.kind)
        ):
            if change.before is None and change.kind != "number":
                with contextlib.suppress(ClientError):
                    self._undo(change)

    def _is_made_again(self, change: Change) -> bool:
        """Return whether only AWS's own names of versions are new ones."""
        if change.before is None or change.after is None or change.before.tags != change.after.tags:
            return False
        if change.kind == "secret":
            was, now = ({**one.content, "versions": 0} for one in (change.before, change.after))
            return bool(was == now)
        return change.kind == "object" and _current(change.before) == _current(change.after)

    def _undo(self, change: Change) -> None:
        undo = {
            "schedule": self._undo_schedule,
            "group": self._undo_group,
            "number": self._undo_number,
            "secret": self._undo_secret,
            "object": self._undo_object,
            "role": self._undo_role,
        }.get(change.kind)
        if undo is not None:
            undo(change)
        elif change.before is None or change.before.tags != change.tags_after:
            # What was made anew under its name is another's, and Terraform would leave it alone.
            self._remove(change.kind, change.name)

    def _remove(self, kind: str, name: str) -> None:
        ec2, iam = self._client("ec2"), self._client("iam")
        {
            "instance": lambda: ec2.terminate_instances(InstanceIds=[name]),
            "volume": lambda: ec2.delete_volume(VolumeId=name),
            "network-interface": lambda: ec2.delete_network_interface(NetworkInterfaceId=name),
            "placement-group": lambda: ec2.delete_placement_group(GroupName=name),
            "launch-template": lambda: ec2.delete_launch_template(LaunchTemplateId=name),
            "bucket": lambda: self._client("s3").delete_bucket(Bucket=name),
            "security-group": lambda: ec2.delete_security_group(GroupId=name),
            "policy": lambda: iam.delete_policy(PolicyArn=f"arn:aws:iam::{ACCOUNT}:policy/{name}"),
            "instance-profile": lambda: self._remove_profile(name.rpartition("/")[2]),
            "log stream": lambda: self._client("logs").delete_log_stream(
                logGroupName=name.partition(":")[0], logStreamName=name.partition(":")[2]
            ),
        }[kind]()

    def _remove_profile(self, name: str) -> None:
        iam = self._client("iam")
        for role in iam.get_instance_profile(InstanceProfileName=name)["InstanceProfile"]["Roles"]:
            iam.remove_role_from_instance_profile(
                InstanceProfileName=name, RoleName=role["RoleName"]
            )
        iam.delete_instance_profile(InstanceProfileName=name)

    def _remove_role(self, name: str) -> None:
        iam = self._client("iam")
        for one in iam.list_attached_role_policies(RoleName=name)["AttachedPolicies"]:
            iam.detach_role_policy(RoleName=name, PolicyArn=one["PolicyArn"])
        for one in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            iam.delete_role_policy(RoleName=name, PolicyName=one)
        for profile in iam.list_instance_profiles_for_role(RoleName=name)["InstanceProfiles"]:
            iam.remove_role_from_instance_profile(
                InstanceProfileName=profile["InstanceProfileName"], RoleName=name
            )
        iam.delete_role(RoleName=name)

    def _undo_role(self, change: Change) -> None:
        """Remove one of others; of the cluster's own what Terraform would leave in it."""
        role = change.name.rpartition("/")[2]
        if change.before is None or change.before.tags != change.tags_after:
            self._remove_role(role)
            return
        kept, there = (
            {one["PolicyName"] for one in thing.content["RolePolicyList"]}
            for thing in (change.before, change.after or change.before)
        )
        for name in there - kept:
            self._client("iam").delete_role_policy(RoleName=role, PolicyName=name)

    def _undo_schedule(self, change: Change) -> None:
        group, _, name = change.name.partition(" ")
        self._client("autoscaling").delete_scheduled_action(
            AutoScalingGroupName=group, ScheduledActionName=name
        )

    def _undo_group(self, change: Change) -> None:
        client = self._client("autoscaling")
        if change.after is not None:
            client.delete_auto_scaling_group(AutoScalingGroupName=change.name, ForceDelete=True)
        if change.before is not None:
            row = self._groups[change.name]
            client.create_auto_scaling_group(**_remade(row))
            suspended = [one["ProcessName"] for one in row["SuspendedProcesses"]]
            if suspended:
                client.suspend_processes(
                    AutoScalingGroupName=change.name, ScalingProcesses=suspended
                )

    def _undo_number(self, change: Change) -> None:
        if change.before is not None:
            self._client("autoscaling").set_desired_capacity(
                AutoScalingGroupName=change.name, DesiredCapacity=change.before.content
            )

    def _undo_secret(self, change: Change) -> None:
        client = self._client("secretsmanager")
        with contextlib.suppress(ClientError):
            client.delete_secret(SecretId=change.name, ForceDeleteWithoutRecovery=True)
        if change.before is None:
            return
        tags = [{"Key": key, "Value": value} for key, value in change.before.tags.items()]
        client.create_secret(Name=change.name, Tags=tags)
        value, policy = change.before.content["value"], change.before.content["policy"]
        if value is not None:
            client.put_secret_value(SecretId=change.name, SecretString=value)
        if policy is not None:
            client.put_resource_policy(SecretId=change.name, ResourcePolicy=policy)

    def _undo_object(self, change: Change) -> None:
        s3 = self._client("s3")
        bucket, _, key = change.name.partition("/")
        kept = [] if change.before is None else [row[0] for row in change.before.content]
        there = [] if change.after is None else [row[0] for row in change.after.content]
        for version in set(there) - set(kept):
            s3.delete_object(Bucket=bucket, Key=key, VersionId=version)
        if change.before is not None and _current(change.before) is None:
            # Whose delete marker was deleted.
            s3.delete_object(Bucket=bucket, Key=key)
        elif set(kept) - set(there) and change.name in self._bodies:
            s3.put_object(Bucket=bucket, Key=key, Body=self._bodies[change.name])


def _current(thing: Thing) -> str | None:
    """Return the digest of an object as it is read now; None where it was deleted."""
    return next((etag for _, etag, latest in thing.content if latest), None)


#: What is undone first.
_ORDER = (
    "schedule",
    "group",
    "number",
    "instance",
    "volume",
    "network-interface",
    "placement-group",
    "launch-template",
    "security-group",
    "instance-profile",
    "role",
    "policy",
    "user",
    "secret",
    "object",
    "bucket",
    "subnet",
    "vpc",
    "log group",
    "log stream",
)
_GIVEN = (
    "AutoScalingGroupName",
    "MinSize",
    "MaxSize",
    "DesiredCapacity",
    "DefaultCooldown",
    "HealthCheckType",
    "HealthCheckGracePeriod",
    "VPCZoneIdentifier",
    "TerminationPolicies",
    "MixedInstancesPolicy",
    "LaunchTemplate",
    "Tags",
)


def _remade(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what makes a group again, from its description."""
    given = json.loads(json.dumps({key: row[key] for key in _GIVEN if row.get(key)}, default=str))
    for spec in _templates(given):
        spec.pop("LaunchTemplateName", None)
    return {"MinSize": 0, "MaxSize": 0, **given}


def _templates(node: Any) -> Iterator[dict[str, Any]]:
    if isinstance(node, dict):
        if "LaunchTemplateId" in node:
            yield node
        for one in node.values():
            yield from _templates(one)
    elif isinstance(node, list):
        for one in node:
            yield from _templates(one)
