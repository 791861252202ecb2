"""Delete resources without Terraform, in an order that AWS accepts, and terminate instances."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from botocore.exceptions import ClientError

from terradask._aws.answers import raise_first
from terradask._aws.listing import listed, listed_instances
from terradask._aws.session import Aws
from terradask._aws.tags import tag_filters
from terradask._aws.translation import reason_of
from terradask._cleanup.resources import AUTOSCALING_GROUP, Resource, of_type, outermost
from terradask._common.batches import batches
from terradask._common.polling import wait_until
from terradask._common.progress import Message, Progress
from terradask._observe.store import STATE, STATE_LOCK, ClusterObjects
from terradask.errors import AwsError, BaselineError, ClusterError, TerradaskError
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import ResourceKind
from terradask_modules.where import Where

#: Longest wait for whatever blocks the deletion of one resource: a NAT gateway takes minutes.
LIMIT_SECONDS = 600.0

PAUSE_SECONDS = 5.0

#: AWS's common codes for missing resources; other codes are in `ResourceKind`.
_GONE = frozenset({"NoSuchEntity", "ResourceNotFoundException"})
#: AWS (documented): InvalidGroup.InUse and DependencyViolation both mean a security group in use.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
_IN_THE_WAY = frozenset(
    {"DependencyViolation", "DeleteConflict", "OperationAborted", "InvalidGroup.InUse"}
)
#: AWS (documented): the message of an InvalidParameterValue for an attached network interface.
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
_INTERFACE_IN_USE = "is currently in use"

#: Freed soon without a caller: by the end of an instance, or of an activity of a group.
_SOON_FREE = frozenset({AUTOSCALING_GROUP, "aws_ebs_volume", "aws_network_interface"})
SOON_SECONDS = 60.0


def delete_resource(aws: Aws, resource: Resource) -> None:
    """Delete one resource; a missing one is no error. This waits for a used one if its use ends
    soon by itself. AWS (ec2-in-use)
    """
    refusals: list[Exception] = []
    soon = SOON_SECONDS if resource.type in _SOON_FREE else -1.0
    if not wait_until(
        lambda: _is_deleted(aws, resource, refusals),
        limit_seconds=soon,
        pause_seconds=PAUSE_SECONDS,
    ):
        raise refusals[-1]


def _is_deleted(aws: Aws, resource: Resource, refusals: list[Exception]) -> bool:
    """Delete a resource, or note AWS's refusal because it is used."""
    kind = KINDS[resource.type]
    try:
        _ignore_missing(partial(_delete, aws.client(kind.service), resource, kind))
    except (ClientError, AwsError) as error:
        if not _is_in_the_way(error):
            raise
        refusals.append(error)
        return False
    return True


def _is_in_the_way(error: ClientError | AwsError) -> bool:
    refused = error.__cause__ if isinstance(error, AwsError) else error
    if not isinstance(refused, ClientError):
        return False
    found = refused.response["Error"]
    known = _IN_THE_WAY.union(*(kind.delete.in_use for kind in KINDS.values() if kind.delete))
    return found["Code"] in known or (
        found["Code"] == "InvalidParameterValue" and _INTERFACE_IN_USE in found.get("Message", "")
    )


def delete_resources(
    aws: Aws, resources: Iterable[Resource], *, progress: Progress, cluster: str | None = None
) -> None:
    """Delete resources, each after its dependants, and wait for whatever blocks one.

    Raises `BaselineError`, `ClusterError`.

    Permissions needed: ``ec2:Delete*``, ``ec2:ReleaseAddress``, ``DetachInternetGateway``,
    ``RevokeSecurityGroupIngress``, ``RevokeSecurityGroupEgress``; ``iam:DeleteRole``,
    ``ListRolePolicies``, ``DeleteRolePolicy``, ``DeleteInstanceProfile``,
    ``RemoveRoleFromInstanceProfile``, ``DeletePolicy``, ``ListPolicyVersions``,
    ``DeletePolicyVersion``; ``logs:DeleteLogGroup``; ``s3:DeleteBucket``, ``ListBucketVersions``,
    ``DeleteObjectVersion``: each only if there is such a resource.
    """
    whole = outermost(list(resources))
    for group in of_type(whole, "aws_security_group"):
        # Groups that reference each other can't be deleted one by one.
        _ignore_missing(partial(_revoke_rules, aws.client("ec2"), group))
    for kind in reversed(KINDS):
        for resource in of_type(whole, kind):
            _delete_when_unused(aws, resource, progress, cluster)


def delete_objects(objects: ClusterObjects) -> None:
    """Delete a cluster's objects, its state last, since the state leads to the cluster."""
    objects.delete(name for name in objects.names() if name not in (STATE, STATE_LOCK))
    objects.delete([STATE])


def wait_for_groups(aws: Aws, names: Sequence[str]) -> None:
    """Wait at most ten minutes until AWS lists deleted groups no more: their names are blocked
    until their instances have ended.

    Permission needed: ``autoscaling:DescribeAutoScalingGroups``.
    """
    client = aws.client("autoscaling")
    if names:
        wait_until(
            lambda: (
                not any(
                    listed(
                        client,
                        "describe_auto_scaling_groups",
                        "AutoScalingGroups",
                        AutoScalingGroupNames=list(names),
                    )
                )
            ),
            limit_seconds=LIMIT_SECONDS,
            pause_seconds=PAUSE_SECONDS,
        )


def _delete_when_unused(
    aws: Aws, resource: Resource, progress: Progress, cluster: str | None
) -> None:
    name = resource.tags.get("Name", resource.id)
    what = f"{resource.type} {resource.id}" + (f" ({name})" if name != resource.id else "")
    refusals: list[Exception] = []

    def report_once() -> None:
        if len(refusals) == 1:
            progress(Message(f"waiting for resources that use {what}"))

    progress(Message(f"removing {what}, which is missing in Terraform's state"))
    if not wait_until(
        lambda: _is_deleted(aws, resource, refusals),
        limit_seconds=LIMIT_SECONDS,
        pause_seconds=PAUSE_SECONDS,
        on_wait=report_once,
    ):
        raise _in_use(what, reason_of(refusals[-1]), cluster) from refusals[-1]


def _in_use(what: str, given: str, cluster: str | None) -> TerradaskError:
    problem = f"{what} can't be removed: another resource uses it"
    if cluster is None:
        advice = (
            "remove resources in this network that terradask didn't make, then: terradask destroy "
            "network"
        )
        return BaselineError(problem, given=given, advice=advice)
    advice = f"remove others' resources that use it, then: terradask destroy {cluster}"
    return ClusterError(problem, cluster=cluster, given=given, advice=advice)


def _ignore_missing(act: Callable[[], object]) -> None:
    try:
        act()
    except ClientError as error:
        if not _is_missing(error.response["Error"]):
            raise


def _is_missing(error: Mapping[str, Any]) -> bool:
    code = error["Code"]
    # AWS (reported, asg-not-found): Auto Scaling answers ValidationError for a missing group:
    # "AutoScalingGroup name not found". https://github.com/aws/aws-sdk-go/issues/1151
    in_words = code == "ValidationError" and "not found" in error.get("Message", "")
    known = _GONE.union(*(kind.delete.gone for kind in KINDS.values() if kind.delete))
    return code in known or code.endswith(".NotFound") or in_words


def _delete(client: Any, resource: Resource, kind: ResourceKind) -> None:
    if resource.type in _FIRST:
        _FIRST[resource.type](client, resource)
    delete, about = kind.delete, resource.description
    assert delete is not None  # only such kinds
    # The id of a role's policy contains the role's name.
    identity = about.get(delete.argument, resource.id)
    account = {}
    if delete.account:
        owner, _, identity = identity.partition(":")
        account = {delete.account: owner}
    arguments = {
        **account,
        **({} if kind.part_of is None else {kind.part_of[1]: about[kind.part_of[1]]}),
        delete.argument: [identity] if delete.in_list else identity,
        **delete.more,
    }
    answer = getattr(client, delete.call)(**arguments)
    unsuccessful = (answer or {}).get("Unsuccessful", ())
    raise_first((one["Error"] for one in unsuccessful if "Error" in one), delete.call)


def _revoke_rules(client: Any, group: Resource) -> None:
    filters = [{"Name": "group-id", "Values": [group.id]}]
    method = "describe_security_group_rules"
    rules = list(listed(client, method, "SecurityGroupRules", Filters=filters))
    for egress in (False, True):
        ids = [rule["SecurityGroupRuleId"] for rule in rules if rule["IsEgress"] == egress]
        if ids:
            way = "egress" if egress else "ingress"
            revoke = getattr(client, f"revoke_security_group_{way}")
            revoke(GroupId=group.id, SecurityGroupRuleIds=ids)


def _detach(client: Any, gateway: Resource) -> None:
    for attachment in gateway.description.get("Attachments", ()):
        _ignore_missing(
            partial(
                client.detach_internet_gateway,
                InternetGatewayId=gateway.id,
                VpcId=attachment["VpcId"],
            )
        )


def _disassociate(client: Any, table: Resource) -> None:
    for association in table.description.get("Associations", ()):
        if not association.get("Main"):
            _ignore_missing(
                partial(
                    client.disassociate_route_table,
                    AssociationId=association["RouteTableAssociationId"],
                )
            )


def _remove_roles(client: Any, profile: Resource) -> None:
    for role in client.get_instance_profile(InstanceProfileName=profile.id)["InstanceProfile"][
        "Roles"
    ]:
        client.remove_role_from_instance_profile(
            InstanceProfileName=profile.id, RoleName=role["RoleName"]
        )


def _detach_policies(client: Any, role: Resource) -> None:
    # AWS (documented): IAM may return fewer results than a page holds, and more pages.
    # https://docs.aws.amazon.com/IAM/latest/APIReference/API_ListRolePolicies.html
    for policy in list(listed(client, "list_role_policies", "PolicyNames", RoleName=role.id)):
        client.delete_role_policy(RoleName=role.id, PolicyName=policy)
    # Others attach policies, such as Systems Manager's Quick Setup.
    method = "list_attached_role_policies"
    for attached in list(listed(client, method, "AttachedPolicies", RoleName=role.id)):
        client.detach_role_policy(RoleName=role.id, PolicyArn=attached["PolicyArn"])


def _delete_old_versions(client: Any, policy: Resource) -> None:
    for version in list(listed(client, "list_policy_versions", "Versions", PolicyArn=policy.id)):
        if not version["IsDefaultVersion"]:
            client.delete_policy_version(PolicyArn=policy.id, VersionId=version["VersionId"])


def _empty(client: Any, bucket: Resource) -> None:
    for page in client.get_paginator("list_object_versions").paginate(Bucket=bucket.id):
        versions = [*page.get("Versions", ()), *page.get("DeleteMarkers", ())]
        entries = [
            {"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions
        ]
        if entries:
            deletion = {"Objects": entries, "Quiet": True}
            answer = client.delete_objects(Bucket=bucket.id, Delete=deletion)
            raise_first(answer.get("Errors", ()), "DeleteObjects")


#: Steps before a resource of a type is deleted.
#: AWS (documented): IAM and EC2 refuse with DeleteConflict or DependencyViolation to delete what
#: has parts, and S3 a bucket with objects by BucketNotEmpty.
#: https://docs.aws.amazon.com/IAM/latest/APIReference/API_DeleteRole.html,
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html,
#: https://docs.aws.amazon.com/AmazonS3/latest/API/API_DeleteBucket.html
_FIRST: Mapping[str, Callable[[Any, Resource], None]] = {
    "aws_internet_gateway": _detach,
    "aws_route_table": _disassociate,
    "aws_iam_instance_profile": _remove_roles,
    "aws_iam_role": _detach_policies,
    "aws_iam_policy": _delete_old_versions,
    "aws_s3_bucket": _empty,
}


# ---- instances -----------------------------------------------------------------------------------


#: Longest wait for EC2 to show instances as terminating, in seconds.
#: AWS (documented, ec2-eventual): EC2 shows changes late, by seconds and sometimes minutes.
#: https://docs.aws.amazon.com/ec2/latest/devguide/eventual-consistency.html
ENDING_SECONDS = 300.0
ENDING_PAUSE_SECONDS = 2.0
_BATCH = 100

_ENDED = frozenset({"shutting-down", "terminated"})


def end_instances(
    aws: Aws, ids: Collection[str], *, cluster: str | None, progress: Progress
) -> None:
    """Terminate instances, and verify it: one that EC2 doesn't list may still exist.

    Raises `ClusterError`.

    Permissions needed: ``ec2:TerminateInstances``, ``ec2:DescribeInstances``.
    """
    ec2, left = aws.client("ec2"), sorted(set(ids))

    def are_ending() -> bool:
        for batch in batches(left, _BATCH):
            _terminate(ec2, batch)
        ending = _ending(ec2, left)
        left[:] = [identity for identity in left if identity not in ending]
        return not left

    def report() -> None:
        progress(Message(f"waiting for EC2 to terminate {', '.join(left)}"))

    if left and not wait_until(
        are_ending, limit_seconds=ENDING_SECONDS, pause_seconds=ENDING_PAUSE_SECONDS, on_wait=report
    ):
        raise ClusterError(
            f"EC2 doesn't terminate {', '.join(left)}",
            cluster=cluster,
            advice="check them in the EC2 console, then: terradask sweep",
        )


def wait_for_hosts(aws: Aws, where: Where) -> None:
    """Wait at most ten minutes until a cluster has no instance.

    A group disappears before its instances. AWS (ec2-in-use)

    Permission needed: ``ec2:DescribeInstances``.
    """
    ec2, filters = aws.client("ec2"), tag_filters(where.tags)
    wait_until(
        # AWS (documented): a page without results may have a next one.
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/Query-Requests.html
        lambda: all(
            one["State"]["Name"] == "terminated" for one in listed_instances(ec2, Filters=filters)
        ),
        limit_seconds=LIMIT_SECONDS,
        pause_seconds=PAUSE_SECONDS,
    )


def _terminate(client: Any, ids: Sequence[str]) -> None:
    try:
        client.terminate_instances(InstanceIds=list(ids))
    except ClientError as error:
        if not error.response["Error"]["Code"].startswith("InvalidInstanceID"):
            raise
        # AWS (documented): EC2 TerminateInstances refuses the entire call for one unknown id.
        # https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_TerminateInstances.html
        if len(ids) > 1:
            for identity in ids:
                _terminate(client, [identity])


def _ending(client: Any, ids: Sequence[str]) -> set[str]:
    # By a filter: an unknown id as an argument would be an error.
    found = listed_instances(client, Filters=[{"Name": "instance-id", "Values": list(ids)}])
    return {instance["InstanceId"] for instance in found if instance["State"]["Name"] in _ENDED}
