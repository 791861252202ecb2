"""Find a network's or a cluster's resources in AWS, in a Terraform state or not.

When Terraform is interrupted, AWS may have created the last resource without Terraform receiving
the reply. It is found by the tags that every resource is created with, or by its name if AWS lists
no tags. The bucket is created without tags: its name can't be another workspace's.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from terradask._aws.answers import unless
from terradask._aws.group_facts import tagged_groups
from terradask._aws.listing import listed, listed_groups
from terradask._aws.tags import tag_filters, tags_of
from terradask._cleanup.resources import (
    AUTOSCALING_GROUP,
    EGRESS_RULE,
    INGRESS_RULE,
    SECRET,
    SECRET_ADDRESS,
    Resource,
    clusters_of,
    of_type,
)
from terradask._common.side_by_side import side_by_side
from terradask.errors import AccessDenied
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed, Named, ResourceKind
from terradask_modules.names import ROLES, secrets_prefix
from terradask_modules.where import ClusterWhere, Where

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.baseline import Isolated
    from terradask._network.deployed import DeployedNetwork


#: Calls a client, and returns the resources.
_Search = Callable[[], Sequence[Resource]]

#: AWS (documented): EC2 lists a NAT gateway for about an hour after its deletion.
#: https://docs.aws.amazon.com/vpc/latest/userguide/nat-gateway-working-with.html
_ENDED = frozenset({"deleted", "deleting", "failed"})


def find_network(
    aws: Aws, where: Where, configured: Mapping[str, Mapping[str, Mapping[str, Any]]]
) -> list[Resource]:
    """Return a network's existing resources: those with the workspace's tag and no cluster's, and
    its bucket. `configured` has the blocks of kinds that are found by name, and of optional ones.

    Parts that are deleted with another resource are left out: routes, rules, policies in roles.

    Permissions needed: ``ec2:Describe*``, ``iam:GetRole``, ``iam:GetInstanceProfile``,
    ``logs:DescribeLogGroups``, ``logs:ListTagsForResource``, ``s3:ListBucket``,
    ``s3:GetBucketTagging``; and permissions of configured kinds that are found by name.
    """
    ec2 = aws.client("ec2")
    searches: list[_Search] = [
        *(
            partial(find_in_ec2, ec2, kind.terraform, where)
            for kind in _in_ec2()
            if not kind.is_optional or kind.terraform in configured
        ),
        *(
            partial(_find_named, aws, kind.terraform, block["name"], block.get("path", "/"))
            for kind in KINDS.values()
            if isinstance(kind.find, Named)
            for block in configured.get(kind.terraform, {}).values()
        ),
        partial(find_bucket, aws.client("s3"), where.bucket, aws.account_id),
    ]
    # Buckets are tagged after their creation; the name contains the account's number.
    found = _call_all(searches)
    return [r for r in found if r.is_of(where) or (r.type == "aws_s3_bucket" and not r.tags)]


@dataclass(frozen=True)
class ClusterSearch:
    """Find the resources of clusters beside groups and secrets.

    Permissions needed: ``ec2:DescribePlacementGroups``, ``DescribeSecurityGroups``,
    ``DescribeSecurityGroupRules``, ``DescribeLaunchTemplates``; of isolated clusters
    ``iam:GetRole``, ``ListRolePolicies``, ``GetInstanceProfile``, ``ListRoles``.
    """

    aws: Aws
    #: The workspace.
    where: Where
    #: Names of clusters' own roles; None if clusters share the workspace's.
    isolated: Isolated | None
    #: Whether clusters may have their own launch templates.
    own_templates: bool = True

    @classmethod
    def on(cls, aws: Aws, network: DeployedNetwork) -> ClusterSearch:
        """Return the search for clusters on a network."""
        isolated = network.isolated()
        own_templates = isolated is not None or network.own_templates()
        return cls(aws, network.where, isolated, own_templates)

    def find(self, cluster: str) -> list[Resource]:
        """Return one cluster's existing resources; roles, with their policies, only if it is
        isolated, and rules of its security groups.
        """
        where, isolated = self.where.of_cluster(cluster), self.isolated
        searches = self._in_ec2(where)
        if isolated is None:
            return [resource for resource in _call_all(searches) if resource.is_of(where)]
        iam, prefix = self.aws.client("iam"), isolated.role_name_prefix
        searches += [
            partial(find_by_name, iam, kind.terraform, where.role_name(role, prefix))
            for kind in KINDS.values()
            if kind.clusters == "isolated" and isinstance(kind.find, Named)
            for role in ROLES
        ]
        found = [resource for resource in _call_all(searches) if resource.is_of(where)]
        # Rules without the tags are deleted only with their group.
        rules = [rule for rule in find_rules_in(self.aws, found) if rule.is_of(where)]
        policies = _call_all(
            [partial(_find_role_policies, iam, role.id) for role in of_type(found, "aws_iam_role")]
        )
        return [*found, *rules, *policies]

    def clusters(self, known: Collection[str] = ()) -> set[str]:
        """Return the clusters with a group, a secret or other resources, by tags; roles of `known`
        ones aren't read.

        Further permissions needed: ``autoscaling:DescribeAutoScalingGroups``,
        ``secretsmanager:ListSecrets``, ``DescribeSecret``.
        """
        scaling, secrets = self.aws.client("autoscaling"), self.aws.client("secretsmanager")
        where = self.where
        found = clusters_of(find_groups(scaling, Filters=tag_filters(where.tags)), where)
        begins = secrets_prefix(where.workspace)
        listed = {one.id.removeprefix(begins) for one in find_secrets(secrets, where)}
        found |= {name for name in listed - found if find_secret(secrets, where.of_cluster(name))}
        found |= self.clusters_in_ec2()
        return found | self.clusters_with_roles(found.union(known))

    def clusters_in_ec2(self) -> set[str]:
        """Return the clusters with resources in EC2, beside hosts."""
        return clusters_of(_call_all(self._in_ec2(self.where)), self.where)

    def clusters_with_roles(self, known: Collection[str]) -> set[str]:
        """Return the clusters with their own roles, except known ones."""
        if self.isolated is None:
            return set()
        iam, prefix = self.aws.client("iam"), self.isolated.role_name_prefix
        expected = {
            self.where.of_cluster(cluster).role_name(role, prefix)
            for cluster in known
            for role in ROLES
        }
        roles = listed(iam, "list_roles", "Roles", PathPrefix=self.isolated.role_path)
        names = {role["RoleName"] for role in roles} - expected
        # The list has no tags.
        return clusters_of(
            _call_all([partial(find_by_name, iam, "aws_iam_role", name) for name in sorted(names)]),
            self.where,
        )

    def _in_ec2(self, where: Where) -> list[_Search]:
        theirs = {"each"} | ({"templates", "isolated"} if self.isolated is not None else set())
        theirs |= {"templates"} if self.own_templates else set()
        return [
            partial(
                _unless_denied if kind.is_optional else find_in_ec2,
                self.aws.client("ec2"),
                kind.terraform,
                where,
            )
            for kind in _in_ec2()
            if kind.clusters in theirs
        ]


def find_security_groups(aws: Aws, where: Where) -> list[Resource]:
    """Return the security groups of a workspace's network, and their rules."""
    found = find_in_ec2(aws.client("ec2"), "aws_security_group", where)
    groups = [group for group in found if group.is_of(where)]
    return [*groups, *find_rules_in(aws, groups)]


def find_rules_in(aws: Aws, resources: Iterable[Resource]) -> list[Resource]:
    """Return the rules in these security groups, tagged or not."""
    groups = [group.id for group in of_type(resources, "aws_security_group")]
    return find_rules(aws, "group-id", groups) if groups else []


def find_rules(aws: Aws, identity: str, values: Sequence[str]) -> list[Resource]:
    """Return the rules of security groups by a filter."""
    ec2, filters = aws.client("ec2"), [{"Name": identity, "Values": list(values)}]
    return [
        Resource(
            EGRESS_RULE if rule["IsEgress"] else INGRESS_RULE,
            rule["SecurityGroupRuleId"],
            tags_of(rule.get("Tags")),
            rule,
        )
        for rule in listed(
            ec2, "describe_security_group_rules", "SecurityGroupRules", Filters=filters
        )
    ]


def list_ec2_resources(
    client: Any, kind: str, filters: Sequence[Mapping[str, Any]]
) -> Iterator[Resource]:
    """Yield the EC2 resources of one kind that match filters."""
    find = KINDS[kind].find
    assert isinstance(find, Listed)  # only such kinds
    for item in listed(client, find.call, find.listing, Filters=filters):
        # Only interfaces list their tags under another key.
        yield Resource(kind, item[find.id], tags_of(item.get("Tags", item.get("TagSet"))), item)


def find_in_ec2(
    client: Any, kind: str, where: Where, *filters: Mapping[str, Any]
) -> list[Resource]:
    """Return EC2 resources of one kind with these tags that match further filters."""
    found = list_ec2_resources(client, kind, [*tag_filters(where.tags), *filters])
    # A VPC's default group is deleted with the VPC.
    return [
        r
        for r in found
        if str(r.description.get("State")).lower() not in _ENDED
        and r.description.get("GroupName") != "default"
    ]


def find_everything_in_ec2(client: Any, where: Where) -> list[Resource]:
    """Return a workspace's EC2 resources of all kinds except instances, of all clusters.

    Permission needed: ``ec2:Describe*``.
    """
    found = _call_all([partial(find_in_ec2, client, kind.terraform, where) for kind in _in_ec2()])
    return [each for each in found if where.tags.items() <= each.tags.items()]


def find_groups_and_secret(aws: Aws, where: ClusterWhere) -> dict[str, Resource]:
    """Return a cluster's groups and secret, by their names and tags: address -> resource.

    Permissions needed: ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:DescribeSecret``.
    """
    scaling = aws.client("autoscaling")
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(find_secret, aws.client("secretsmanager"), where)
        groups = dict(tagged_groups(scaling, workspace=where.workspace, cluster=where.cluster))
        secret = found.result()
    return {
        **{f"{AUTOSCALING_GROUP}.{name}": _group(group) for name, group in groups.items()},
        **({} if secret is None else {SECRET_ADDRESS: secret}),
    }


def find_groups(client: Any, **question: Any) -> list[Resource]:
    """Return Auto Scaling groups, by filters or by names."""
    return [_group(group) for group in listed_groups(client, **question)]


def _group(group: Mapping[str, Any]) -> Resource:
    tags = tags_of(group.get("Tags"))
    return Resource(AUTOSCALING_GROUP, group["AutoScalingGroupName"], tags, group)


def find_secrets(client: Any, where: Where, **options: bool) -> list[Resource]:
    """Return a workspace's secrets; the list is up to five minutes old, with deleted ones."""
    filters = [{"Key": "name", "Values": [secrets_prefix(where.workspace)]}]
    return [
        Resource(SECRET, one["Name"], tags_of(one.get("Tags")), one)
        for one in listed(client, "list_secrets", "SecretList", Filters=filters, **options)
    ]


def find_secret(client: Any, where: ClusterWhere) -> Resource | None:
    """Return a cluster's secret if it exists with its tags, and isn't to be deleted."""
    found = describe_secret(client, where.secret_id)
    if found is None or not found.is_of(where) or found.description.get("DeletedDate"):
        return None
    return found


def describe_secret(client: Any, name: str) -> Resource | None:
    """Return the secret of this name, even if scheduled for deletion."""
    with unless("ResourceNotFoundException"):
        answer = client.describe_secret(SecretId=name)
        return Resource(SECRET, name, tags_of(answer.get("Tags")), answer)
    return None


def _call_all(searches: Sequence[_Search]) -> list[Resource]:
    """Make all calls in parallel."""
    return [resource for answer in side_by_side(searches, 8) for resource in answer]


def _in_ec2() -> list[ResourceKind]:
    """Return the kinds that EC2 lists by tags."""
    return [kind for kind in KINDS.values() if isinstance(kind.find, Listed)]


def _unless_denied(client: Any, kind: str, where: Where) -> list[Resource]:
    try:
        return find_in_ec2(client, kind, where)
    except AccessDenied:
        # An older caller policy lacks this permission; its callers can't have created any.
        return []


# ---- by name, in services that don't list by tags ------------------------------------------------


def _find_named(aws: Aws, kind: str, name: str, path: str = "/") -> list[Resource]:
    """Return the resource of this kind and name, or an empty list."""
    about = KINDS[kind]
    assert isinstance(about.find, Named)  # only such kinds
    place = {"partition": aws.partition, "region": aws.region, "account": aws.account_id}
    asked = about.find.arn.format(**place, path=path, name=name) or name
    client = aws.client(about.service)
    if about.find.call:
        return find_by_name(client, kind, asked, about.find.id.format(**place, name=name))
    return find_log_group(client, asked)


def find_by_name(client: Any, kind: str, asked: str, identity: str = "") -> list[Resource]:
    """Return the resource of this kind and name or ARN, or an empty list, with one call. `identity`
    is its id in Terraform, where that is another one.
    """
    find = KINDS[kind].find
    assert isinstance(find, Named)  # only such kinds
    with unless("NoSuchEntity", "ResourceNotFound", "NotFound", "NotFoundException"):
        found = getattr(client, find.call)(**{find.argument: asked})[find.key]
        # A call that returns only tags shows no more.
        about = {"Tags": found} if isinstance(found, list) else found
        return [Resource(kind, identity or asked, tags_of(about.get("Tags")), about)]
    return []


def _find_role_policies(client: Any, role: str) -> list[Resource]:
    """Return the inline policies of a role."""
    names: list[str] = []
    with unless("NoSuchEntity"):
        names = list(listed(client, "list_role_policies", "PolicyNames", RoleName=role))
    return [
        Resource(
            "aws_iam_role_policy",
            f"{role}:{name}",
            description={"RoleName": role, "PolicyName": name},
        )
        for name in names
    ]


def find_log_group(client: Any, name: str) -> list[Resource]:
    """Return the log group of this name, or an empty list."""
    groups = listed(client, "describe_log_groups", "logGroups", logGroupNamePrefix=name)
    return [
        Resource(
            "aws_cloudwatch_log_group",
            name,
            # Listed ARNs end in ":*"; tags are listed by ARNs without it.
            client.list_tags_for_resource(resourceArn=group["arn"].removesuffix(":*"))["tags"],
            group,
        )
        for group in groups
        if group["logGroupName"] == name
    ]


def find_bucket(client: Any, name: str, account: str) -> list[Resource]:
    """Return the bucket of this name, if this account has it."""
    # For another account's bucket, Terraform reports the conflict.
    found = None
    with suppress(AccessDenied), unless("NoSuchBucket", "404"):
        found = client.head_bucket(Bucket=name, ExpectedBucketOwner=account)
    if found is None:
        return []
    tags = []
    with unless("NoSuchTagSet"):
        tags = client.get_bucket_tagging(Bucket=name, ExpectedBucketOwner=account)["TagSet"]
    return [Resource("aws_s3_bucket", name, tags_of(tags))]
