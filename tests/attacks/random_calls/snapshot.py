"""Everything in the account that an attack could change, as its owner sees it."""

from __future__ import annotations

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from ...simulator.acting import Account
from .names import Names

_Row = Mapping[str, Any]

#: What AWS changes by itself in a group, or says elsewhere.
_LIVELY = {
    "AutoScalingGroupARN",
    "CreatedTime",
    "DesiredCapacity",
    "Instances",
    "Status",
    "Tags",
    "EnabledMetrics",
}

#: So many characters of a resource are shown.
_SHOWN = 600


@dataclass(frozen=True)
class Thing:
    """A resource: what must not change unless it may, and its tags."""

    content: Any
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Change:
    """A resource that was made, changed or removed."""

    kind: str
    name: str
    before: Thing | None
    after: Thing | None

    @property
    def tags(self) -> Mapping[str, str]:
        """The tags by which it belonged to a cluster: those from before, where there were any."""
        return ((self.before or self.after) or Thing(None)).tags

    @property
    def tags_after(self) -> Mapping[str, str]:
        """The tags that it has now."""
        return (self.after or Thing(None)).tags

    def __str__(self) -> str:
        was, now = _differing(self.before, self.after)
        return f"{self.kind} {self.name}: {was[:_SHOWN]} -> {now[:_SHOWN]}"


def _differing(before: Thing | None, after: Thing | None) -> tuple[str, str]:
    """Return two resources as texts, without the fields that both have alike."""
    if before is None or after is None or not isinstance(before.content, dict):
        return str(before), str(after)
    fields = [
        key
        for key in {**before.content, **after.content}
        if before.content.get(key) != after.content.get(key)
    ]
    was, now = (
        f"{ {key: one.content.get(key) for key in fields} } {dict(one.tags)}"
        for one in (before, after)
    )
    return was, now


Snapshot = dict[tuple[str, str], Thing]


def changes(before: Snapshot, after: Snapshot) -> list[Change]:
    """Return what differs."""
    return [
        Change(*key, before.get(key), after.get(key))
        for key in sorted({*before, *after})
        if before.get(key) != after.get(key)
    ]


def names_in(snapshot: Snapshot, cluster: str) -> Names:
    """Return the names of everything, by kind; those of one cluster are drawn more often."""
    there: dict[str, list[str]] = defaultdict(list)
    for (kind, name), thing in snapshot.items():
        there[kind].append(name)
        if kind == "object":
            there[f"version of {name}"] = [row[0] for row in thing.content]
        if kind == "launch-template":
            there["image"] += [data["ImageId"] for data in thing.content if "ImageId" in data]
        if kind == "placement-group":
            there["placement-group id"].append(thing.content)
        if kind == "security-group":
            there["security-group-rule"] += thing.content["rules"]
    return Names(there, cluster)


class Lens:
    """Takes snapshots, with the owner's clients."""

    def __init__(self, owner: Account) -> None:
        services = ("autoscaling", "ec2", "iam", "logs", "s3", "secretsmanager")
        self._clients = {service: owner.client(service) for service in services}

    def take(self) -> Snapshot:
        """Return everything that there is now."""
        parts = (
            self._groups,
            self._secrets,
            self._objects,
            self._hosts,
            self._network,
            self._identities,
            self._logs,
        )
        return {(kind, name): thing for part in parts for kind, name, thing in part()}

    def _pages(self, service: str, call: str, key: str, **given: Any) -> Iterator[dict[str, Any]]:
        for page in self._clients[service].get_paginator(call).paginate(**given):
            yield from page.get(key, ())

    def _groups(self) -> Iterator[tuple[str, str, Thing]]:
        tags_of = {}
        for row in self._pages("autoscaling", "describe_auto_scaling_groups", "AutoScalingGroups"):
            name, tags = row["AutoScalingGroupName"], _tags(row["Tags"])
            tags_of[name] = tags
            fixed = {key: value for key, value in row.items() if key not in _LIVELY}
            # Without AWS's reason, which has the time.
            fixed["SuspendedProcesses"] = [one["ProcessName"] for one in row["SuspendedProcesses"]]
            yield "group", name, Thing(_plain(fixed), tags)
            yield "number", name, Thing(row["DesiredCapacity"], tags)
        scheduled = self._clients["autoscaling"].describe_scheduled_actions()
        for row in scheduled["ScheduledUpdateGroupActions"]:
            group = row["AutoScalingGroupName"]
            yield (
                "schedule",
                f"{group} {row['ScheduledActionName']}",
                Thing(_plain(row), tags_of.get(group, {})),
            )

    def _secrets(self) -> Iterator[tuple[str, str, Thing]]:
        client = self._clients["secretsmanager"]
        for row in client.list_secrets(IncludePlannedDeletion=True)["SecretList"]:
            deleted = "DeletedDate" in row
            versions = row.get("SecretVersionsToStages")
            policy = None if deleted else client.get_resource_policy(SecretId=row["ARN"])
            content = {
                "deleted": deleted,
                "versions": versions,
                "policy": policy and policy.get("ResourcePolicy"),
                "value": None if deleted or not versions else _value(client, row["ARN"]),
            }
            yield "secret", row["Name"], Thing(content, _tags(row.get("Tags", ())))

    def _objects(self) -> Iterator[tuple[str, str, Thing]]:
        s3 = self._clients["s3"]
        for bucket in (row["Name"] for row in s3.list_buckets()["Buckets"]):
            policy = _unless_missing(s3, lambda bucket=bucket: s3.get_bucket_policy(Bucket=bucket))
            versioning = s3.get_bucket_versioning(Bucket=bucket).get("Status")
            yield "bucket", bucket, Thing([policy and policy["Policy"], versioning])
            versions: dict[str, list[list[Any]]] = defaultdict(list)
            for page in s3.get_paginator("list_object_versions").paginate(Bucket=bucket):
                for row in [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]:
                    versions[row["Key"]].append(
                        [row["VersionId"], row.get("ETag"), row["IsLatest"]]
                    )
            for key, found in versions.items():
                yield "object", f"{bucket}/{key}", Thing(sorted(found, key=str))

    def _hosts(self) -> Iterator[tuple[str, str, Thing]]:
        for reservation in self._pages("ec2", "describe_instances", "Reservations"):
            for row in reservation["Instances"]:
                if row["State"]["Name"] not in ("terminated", "shutting-down"):
                    content = [row["ImageId"], row["InstanceType"], row.get("IamInstanceProfile")]
                    yield "instance", row["InstanceId"], Thing(content, _tags(row.get("Tags", ())))
        for row in self._pages("ec2", "describe_volumes", "Volumes"):
            yield "volume", row["VolumeId"], Thing(row["Size"], _tags(row.get("Tags", ())))
        for row in self._pages("ec2", "describe_network_interfaces", "NetworkInterfaces"):
            name, tags = row["NetworkInterfaceId"], _tags(row.get("TagSet", ()))
            yield "network-interface", name, Thing(row["SubnetId"], tags)
        for row in self._clients["ec2"].describe_placement_groups()["PlacementGroups"]:
            yield (
                "placement-group",
                row.get("GroupName", ""),
                Thing(row["GroupId"], _tags(row.get("Tags", ()))),
            )

    def _network(self) -> Iterator[tuple[str, str, Thing]]:
        ec2 = self._clients["ec2"]
        for row in self._pages("ec2", "describe_launch_templates", "LaunchTemplates"):
            name, given = row["LaunchTemplateId"], row.get("Tags", ())
            versions = ec2.describe_launch_template_versions(LaunchTemplateId=name)
            data = [one["LaunchTemplateData"] for one in versions["LaunchTemplateVersions"]]
            default = {"DefaultVersion": row["DefaultVersionNumber"]}
            yield "launch-template", name, Thing([*_plain(data), default], _tags(given))
        rules: dict[str, list[str]] = defaultdict(list)
        for row in self._pages("ec2", "describe_security_group_rules", "SecurityGroupRules"):
            rules[row["GroupId"]].append(row["SecurityGroupRuleId"])
        for row in self._pages("ec2", "describe_security_groups", "SecurityGroups"):
            content = {key: row[key] for key in ("IpPermissions", "IpPermissionsEgress")}
            name = row["GroupId"]
            thing = Thing(
                {**_plain(content), "rules": sorted(rules[name])}, _tags(row.get("Tags", ()))
            )
            yield "security-group", name, thing
        for row in self._pages("ec2", "describe_subnets", "Subnets"):
            yield "subnet", row["SubnetId"], Thing(row["VpcId"], _tags(row.get("Tags", ())))
        for row in self._pages("ec2", "describe_vpcs", "Vpcs"):
            yield "vpc", row["VpcId"], Thing(row["CidrBlock"], _tags(row.get("Tags", ())))

    def _identities(self) -> Iterator[tuple[str, str, Thing]]:
        found = self._clients["iam"].get_account_authorization_details(
            Filter=["User", "Role", "Group", "LocalManagedPolicy"]
        )
        for row in found["RoleDetailList"]:
            row.pop("InstanceProfileList", None)
            tags = _tags(row.pop("Tags", ()))
            row.pop("RoleLastUsed", None)
            yield "role", _iam_name(row["Arn"]), Thing(_plain(row), tags)
        for row in self._pages("iam", "list_instance_profiles", "InstanceProfiles"):
            roles = [role["RoleName"] for role in row["Roles"]]
            name, tags = _iam_name(row["Arn"]), _tags(row.get("Tags", ()))
            yield "instance-profile", name, Thing(roles, tags)
        for row in found["UserDetailList"]:
            yield "user", row["UserName"], Thing(_plain(row))
        for row in found["Policies"]:
            yield "policy", _iam_name(row["Arn"]), Thing(_plain(row["PolicyVersionList"]))

    def _logs(self) -> Iterator[tuple[str, str, Thing]]:
        for row in self._pages("logs", "describe_log_groups", "logGroups"):
            group = row["logGroupName"]
            yield "log group", group, Thing(row.get("retentionInDays"))
            for stream in self._pages(
                "logs", "describe_log_streams", "logStreams", logGroupName=group
            ):
                name = f"{group}:{stream['logStreamName']}"
                yield "log stream", name, Thing(stream.get("lastIngestionTime"))


def _value(client: Any, arn: str) -> str | None:
    answer = _unless_missing(client, lambda: client.get_secret_value(SecretId=arn))
    return answer and str(answer.get("SecretString", answer.get("SecretBinary")))


def _unless_missing(client: Any, call: Any) -> Any:
    try:
        return call()
    except client.exceptions.ClientError as error:
        if error.response["Error"]["Code"] in ("NoSuchBucketPolicy", "ResourceNotFoundException"):
            return None
        raise


def _tags(rows: Iterable[_Row]) -> dict[str, str]:
    return {row["Key"]: row.get("Value", "") for row in rows}


def _iam_name(arn: str) -> str:
    return arn.partition("/")[2]


def _plain(value: Any) -> Any:
    """Return it as JSON has it, with long texts as digests."""
    return json.loads(json.dumps(value, default=str), object_hook=_shortened)


def _shortened(row: dict[str, Any]) -> dict[str, Any]:
    return {
        key: hashlib.sha256(one.encode()).hexdigest()
        if isinstance(one, str) and len(one) > 500
        else one
        for key, one in row.items()
    }
