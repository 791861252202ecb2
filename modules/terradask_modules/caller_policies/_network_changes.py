"""Rights to make, change and destroy a network, in addition to those to see it."""

from __future__ import annotations

from terradask_modules.caller_policies._by_kind import (
    KEEP_INSTANCE_PROFILES,
    MAKE_BOUNDED_ROLES,
    MAKE_ROLES,
    RULES,
    TAG_AND_REMOVE_ROLES,
    by_settings,
    of_ec2,
    rights_of,
)
from terradask_modules.caller_policies._scope import SERVICE_ROLES, CallerScope, demanding
from terradask_modules.caller_policies._state import SET_UP_BUCKET
from terradask_modules.iam import Statement, allow, both
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Rights
from terradask_modules.names import HISTORY, SOFTWARE, TAG_WORKSPACE


def _made(scope: CallerScope) -> list[Rights]:
    """Return the rights on the network's own parts in EC2."""
    given = {"vpc": scope.given_vpc, "security_groups": scope.given_security_groups}
    kinds = (kind for kind in KINDS.values() if kind.clusters != "each" and scope.has(kind))
    return [one for one in rights_of(kinds) if not given.get(one.given_with or "")]


def _types(scope: CallerScope) -> list[str]:
    """Return their types in ARNs, with those of their parts."""
    types = [one.type for one in _made(scope)]
    return [*types, *(["security-group-rule"] if "security-group" in types else [])]


def change_network(scope: CallerScope) -> list[Statement]:
    """Return the rights to make, change and destroy the network, in addition to seeing it."""
    return [
        *_make(scope),
        *_tag(scope),
        *_change(scope),
        *_name_endpoints(scope),
        *_roles(scope),
        *_bound_clusters_roles(scope),
        *_bucket(scope),
        *by_settings(scope, "keep"),
        allow(
            "KeepLogGroups",
            [
                *(["logs:AssociateKmsKey"] if scope.hosts.kms_key_arn else []),
                "logs:CreateLogGroup",
                "logs:DeleteLogGroup",
                "logs:PutRetentionPolicy",
                "logs:TagResource",
                "logs:UntagResource",
            ],
            scope.log_groups,
        ),
        # The network is not destroyed under clusters.
        scope.see(
            "SeeWhatStandsOnIt",
            ["autoscaling:DescribeAutoScalingGroups", "secretsmanager:ListSecrets"],
        ),
        allow("SeeKeysOfClustersExist", "secretsmanager:DescribeSecret", scope.secrets),
    ]


def _make(scope: CallerScope) -> list[Statement]:
    made, types = _made(scope), _types(scope)
    statements = []
    for sid, how in (
        ("MakeWithTheTag", "nothing"),
        ("MakeInVpcWithTheTag", "vpc"),
        ("MakeOfOwnWithTheTag", "others"),
    ):
        some = [one for one in made if one.within == how]
        if some:
            arns = scope.ec2(*(one.type for one in some))
            statements.append(allow(sid, of_ec2(one.make for one in some), arns, scope.tagged))
    if "security-group-rule" in types:
        statements.append(
            allow(
                "MakeRulesWithTheTag", of_ec2(RULES), scope.ec2("security-group-rule"), scope.tagged
            )
        )
    # The parents of a new resource must be the workspace's already, or given to it.
    within = of_ec2(one.make for one in made if one.within != "nothing")
    if scope.given_vpc is None:
        parts = ("elastic-ip", "route-table", "security-group", "subnet", "vpc")
        own = scope.ec2(*(part for part in parts if part in types))
        statements.append(allow("MakeWithinOwn", within, own, scope.where.own))
    elif within:
        vpc = scope.ec2(f"vpc/{scope.given_vpc}")
        statements.append(allow("MakeWithinGivenVpc", within, vpc))
    return statements


def _tag(scope: CallerScope) -> list[Statement]:
    types = _types(scope)
    rules = RULES if "security-group-rule" in types else ()
    born = sorted([*(one.make for one in _made(scope)), *rules])
    statements = [
        scope.tag_at_birth("TagAtBirth", scope.ec2(*types), scope.tagged, born),
        # The workspace's own tag never changes, so that nothing moves between workspaces.
        allow(
            "TagOwn",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            scope.ec2(*types),
            scope.keeping(scope.where.own, TAG_WORKSPACE),
        ),
    ]
    if "vpc" in types:
        # A VPC's default group is created without tags; one with this tag, of any owner, is out of
        # reach.
        untagged = {"Null": {f"aws:ResourceTag/{TAG_WORKSPACE}": "true"}}
        statements.append(
            allow(
                "AdoptDefaultSecurityGroup",
                "ec2:CreateTags",
                scope.ec2("security-group"),
                both(scope.tagged, untagged),
            )
        )
    return statements


def _change(scope: CallerScope) -> list[Statement]:
    types = _types(scope)
    actions = [action for one in _made(scope) for action in one.change]
    if "dual_stack" in scope.settings:
        actions += [action for one in _made(scope) for action in one.dual_stack]
    statements = [allow("ChangeAndRemoveOwn", of_ec2(actions), scope.ec2(*types), scope.where.own)]
    if "elastic-ip" in types:
        # The address named with them must be the workspace's.
        # AWS (documented): The network interface of a NAT gateway is made and managed by AWS.
        # https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/requester-managed-eni.html
        statements.append(
            allow(
                "NameInterfacesOfNatGateways",
                "ec2:DisassociateAddress",
                scope.ec2("network-interface"),
            )
        )
    return statements


def _name_endpoints(scope: CallerScope) -> list[Statement]:
    """Return EC2's own calls, in the caller's name, to name an interface endpoint; AWS owns the
    zone.
    """
    if not scope.interface_endpoints:
        return []
    zones = f"arn:{scope.where.partition}:route53:::hostedzone/*"
    return [allow("NameInterfaceEndpoints", "route53:AssociateVPCWithHostedZone", zones)]


def _roles(scope: CallerScope) -> list[Statement]:
    statements = []
    if scope.made_roles:
        statements += _made_roles(scope)
    if not scope.given_roles:
        statements += [
            allow(
                "KeepInstanceProfiles",
                list(KEEP_INSTANCE_PROFILES),
                scope.instance_profiles,
            ),
            allow("PutRolesIntoProfiles", "iam:PassRole", scope.roles, scope.to_instances),
        ]
    for role, writer in scope.writers.items():
        what = writer.name.title().replace("-", "")
        passed = {"StringEquals": {"iam:PassedToService": writer.principal}}
        statements.append(allow(f"PassRoleTo{what}", "iam:PassRole", role, passed))
    services = {"StringEquals": {"iam:AWSServiceName": list(SERVICE_ROLES)}}
    return [
        *statements,
        allow("MakeServiceRoles", "iam:CreateServiceLinkedRole", scope.service_roles, services),
    ]


def _made_roles(scope: CallerScope) -> list[Statement]:
    boundary = scope.permissions_boundary
    bound = None if boundary is None else demanding(boundary)
    # Only this boundary is allowed, and there is no right to remove it.
    bounded = MAKE_ROLES if boundary is None else MAKE_BOUNDED_ROLES
    return [
        allow("MakeRoles", list(bounded), scope.made_roles, bound),
        *scope.attach("AttachPoliciesOfTasks", scope.roles, bound),
        allow("TagAndRemoveRoles", list(TAG_AND_REMOVE_ROLES), scope.made_roles),
    ]


def _bound_clusters_roles(scope: CallerScope) -> list[Statement]:
    """Return the rights to make and change the boundary of clusters' own roles.

    A caller who may change it decides the limit of hosts' rights.
    """
    if not scope.isolated:
        return []
    # The network is not destroyed under clusters: a role may be the last part of one. Listing has
    # no resource.
    seen = [
        allow("FindRolesOfClusters", "iam:ListRoles", "*"),
        allow("SeeRolesOfClusters", "iam:GetRole", scope.asked_for([scope.clusters_roles])),
    ]
    if scope.made_boundary is None:
        return seen
    return [
        *seen,
        allow(
            "BoundRolesOfClusters",
            [
                "iam:CreatePolicy",
                "iam:CreatePolicyVersion",
                "iam:DeletePolicy",
                "iam:DeletePolicyVersion",
                "iam:ListPolicyVersions",
                "iam:TagPolicy",
                "iam:UntagPolicy",
            ],
            scope.made_boundary,
        ),
    ]


def _bucket(scope: CallerScope) -> list[Statement]:
    return [
        allow(
            "KeepBucket",
            [
                "s3:CreateBucket",
                "s3:DeleteBucket",
                "s3:DeleteBucketPolicy",
                "s3:ListBucketVersions",
                *SET_UP_BUCKET,
            ],
            scope.bucket,
        ),
        allow(
            "WriteObjectsOfNetwork",
            ["s3:PutObject", "s3:PutObjectTagging"],
            [
                f"{scope.bucket}/applied/network.json",
                f"{scope.bucket}/{HISTORY}*",
                f"{scope.bucket}/host/*",
                # Code that other callers' hosts run.
                f"{scope.bucket}/{SOFTWARE}*",
                f"{scope.bucket}/workspace.json",
            ],
        ),
        # A bucket is removed with every version of every object.
        allow("EmptyBucket", ["s3:DeleteObject", "s3:DeleteObjectVersion"], f"{scope.bucket}/*"),
    ]
