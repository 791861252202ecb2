"""What a workspace, or one of its clusters, has left on AWS: asked by tag and by name of every
service we use.

Works on AWS as on the embedded one, with plain boto3.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed

if TYPE_CHECKING:
    import boto3

__all__ = ["leftovers"]

_WORKSPACE, _CLUSTER = "terradask:workspace", "terradask:cluster"

#: EC2 resources that go on being described for a while after their end.
_ENDED = {"terminated", "deleted", "deleting", "shutting-down"}


def leftovers(
    workspace: str, *, cluster: str | None = None, session: boto3.Session | None = None
) -> list[str]:
    """Return everything that is left, as sorted ``kind id`` lines; an empty list proves that
    nothing is.

    Parameters
    ----------
    workspace
        The workspace.
    cluster
        Only what belongs to this cluster; by default everything of the workspace.
    session
        The boto3 session; by default one from the environment.

    Notes
    -----
    Needs ``tag:GetResources``, ``ec2:Describe*``, ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:ListSecrets``, ``logs:DescribeLogGroups``, ``logs:DescribeLogStreams``,
    ``iam:List*``, ``iam:Get*``, ``budgets:ViewBudget``, ``sns:ListTopics`` and
    ``s3:ListAllMyBuckets``, ``s3:ListBucket``. Makes nothing.
    """
    import boto3

    used = session or boto3.Session()
    tags = {_WORKSPACE: workspace, **({_CLUSTER: cluster} if cluster else {})}
    searches: list[tuple[str, Callable[[Any], Iterator[str]]]] = [
        ("resourcegroupstaggingapi", lambda client: _tagged(client, tags)),
        ("ec2", lambda client: _ec2(client, tags)),
        ("autoscaling", lambda client: _groups(client, tags)),
        ("secretsmanager", lambda client: _secrets(client, workspace, cluster)),
        ("logs", lambda client: _logs(client, workspace, cluster)),
        ("s3", lambda client: _buckets(client, workspace, cluster)),
        ("iam", lambda client: _identities(client, workspace, cluster)),
        ("budgets", lambda client: _budgets(client, workspace, cluster, used)),
        ("sns", lambda client: _topics(client, workspace, cluster)),
    ]
    found: set[str] = set()
    for service, search in searches:
        with contextlib.closing(used.client(service)) as client:  # type: ignore[call-overload]  # any service
            found.update(search(client))
    # EC2 says itself what it has; its tags outlive instances and gateways for an hour.
    return sorted(line for line in found if not line.startswith("arn arn:aws:ec2:"))


def _tagged(client: Any, tags: dict[str, str]) -> Iterator[str]:
    filters = [{"Key": key, "Values": [value]} for key, value in tags.items()]
    for page in client.get_paginator("get_resources").paginate(TagFilters=filters):
        for resource in page["ResourceTagMappingList"]:
            yield f"arn {resource['ResourceARN']}"


def _ec2(client: Any, tags: dict[str, str]) -> Iterator[str]:
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    for page in client.get_paginator("describe_instances").paginate(Filters=filters):
        for reservation in page["Reservations"]:
            for instance in reservation["Instances"]:
                if instance["State"]["Name"] not in _ENDED:
                    yield f"instance {instance['InstanceId']}"
    for kind in KINDS.values():
        if not isinstance(kind.find, Listed):
            continue
        for resource in getattr(client, kind.find.call)(Filters=filters)[kind.find.listing]:
            own = {
                tag["Key"]: tag["Value"] for tag in resource.get("Tags", resource.get("TagSet", []))
            }
            # moto's NAT gateways know no filter by tag.
            if own.items() >= tags.items() and str(resource.get("State", "")).lower() not in _ENDED:
                yield f"{kind.noun} {resource[kind.find.id]}"


def _groups(client: Any, tags: dict[str, str]) -> Iterator[str]:
    filters = [{"Name": f"tag:{key}", "Values": [value]} for key, value in tags.items()]
    for page in client.get_paginator("describe_auto_scaling_groups").paginate(Filters=filters):
        for group in page["AutoScalingGroups"]:
            yield f"auto-scaling-group {group['AutoScalingGroupName']}"


def _secrets(client: Any, workspace: str, cluster: str | None) -> Iterator[str]:
    name = f"terradask/{workspace}/{cluster or ''}"
    filters = [{"Key": "name", "Values": [f"terradask/{workspace}/"]}]
    for page in client.get_paginator("list_secrets").paginate(Filters=filters):
        for secret in page["SecretList"]:
            if secret["Name"] == name or (cluster is None and secret["Name"].startswith(name)):
                yield f"secret {secret['Name']}"


def _logs(client: Any, workspace: str, cluster: str | None) -> Iterator[str]:
    # A cluster's log streams stay on purpose, for as long as the log group keeps them.
    if cluster is not None:
        return
    name = f"/terradask/{workspace}"
    for page in client.get_paginator("describe_log_groups").paginate(logGroupNamePrefix=name):
        for group in page["logGroups"]:
            if f"{group['logGroupName']}/".startswith(f"{name}/"):
                yield f"log-group {group['logGroupName']}"


def _budgets(client: Any, workspace: str, cluster: str | None, session: Any) -> Iterator[str]:
    if cluster is not None:
        return
    with contextlib.closing(session.client("sts")) as sts:
        account = sts.get_caller_identity()["Account"]
    for page in client.get_paginator("describe_budgets").paginate(AccountId=account):
        for budget in page.get("Budgets", ()):
            if budget["BudgetName"].startswith(f"terradask-{workspace}."):
                yield f"budget {budget['BudgetName']}"


def _topics(client: Any, workspace: str, cluster: str | None) -> Iterator[str]:
    if cluster is not None:
        return
    for page in client.get_paginator("list_topics").paginate():
        for topic in page["Topics"]:
            if topic["TopicArn"].endswith(f":terradask-{workspace}-ends"):
                yield f"topic {topic['TopicArn']}"


def _buckets(client: Any, workspace: str, cluster: str | None) -> Iterator[str]:
    for bucket in client.list_buckets()["Buckets"]:
        name = bucket["Name"]
        # The account's twelve digits follow, so that workspace `a` doesn't claim the bucket of
        # `a-b`.
        rest = name.removeprefix(f"terradask-{workspace}-")
        if rest == name or not rest[:12].isdigit():
            continue
        if cluster is None:
            yield f"bucket {name}"
            continue
        for page in client.get_paginator("list_objects_v2").paginate(
            Bucket=name, Prefix=f"clusters/{cluster}/"
        ):
            for content in page.get("Contents", []):
                yield f"object s3://{name}/{content['Key']}"


def _identities(client: Any, workspace: str, cluster: str | None) -> Iterator[str]:
    for kind in ("role", "instance-profile", "policy"):
        operation, name = kind.replace("-", "_"), "".join(map(str.title, kind.split("-")))
        plural = "policies" if kind == "policy" else f"{operation}s"
        own = {"Scope": "Local"} if kind == "policy" else {}
        for page in client.get_paginator(f"list_{plural}").paginate(**own):
            for one in page["Policies" if kind == "policy" else f"{name}s"]:
                # Clusters' own have a path of the workspace's; of the others, the names say enough.
                if not (
                    one[f"{name}Name"].startswith(f"terradask-{workspace}-")
                    or one["Path"].endswith(f"/terradask/{workspace}/")
                ):
                    continue
                # The tag separates workspace `a` from `a-b`, and names the cluster; lists carry
                # no tags.
                key = "PolicyArn" if kind == "policy" else f"{name}Name"
                whole = getattr(client, f"get_{operation}")(
                    **{key: one[key.removeprefix("Policy")]}
                )
                known = {tag["Key"]: tag["Value"] for tag in whole[name].get("Tags", [])}
                if known.get(_WORKSPACE, workspace) == workspace and cluster in (
                    None,
                    known.get(_CLUSTER),
                ):
                    yield f"{kind} {one[f'{name}Name']}"
