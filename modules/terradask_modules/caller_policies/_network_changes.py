"""What making, changing and destroying a network baseline needs, beside seeing it."""

from __future__ import annotations

from terradask_modules.caller_policies._actions import (
    CHANGES,
    DUAL_STACK_CHANGES,
    KEEP_INSTANCE_PROFILES,
    MADE_ALONE,
    MADE_IN_VPC,
    MADE_OF_OTHERS,
    MAKE_BOUNDED_ROLES,
    MAKE_ROLES,
    RULES,
    TAG_AND_REMOVE_ROLES,
    of_ec2,
)
from terradask_modules.caller_policies._notices import keep_topic
from terradask_modules.caller_policies._scope import SERVICE_ROLES, CallerScope, demanding
from terradask_modules.iam import Statement, allow, both
from terradask_modules.names import HISTORY, SOFTWARE, TAG_WORKSPACE


def _kinds(scope: CallerScope) -> list[str]:
    """Return the kinds of resources that the network makes in EC2."""
    made = {"launch-template"}
    if scope.given_vpc is None:
        made |= {
            "elastic-ip",
            "internet-gateway",
            "natgateway",
            "route-table",
            "subnet",
            "vpc",
            "vpc-endpoint",
        }
    if not scope.given_security_groups:
        made.add("security-group")
    if scope.flow_logs:
        made.add("vpc-flow-log")
    if scope.dual_stack:
        made.add("egress-only-internet-gateway")
    return sorted(made)


def change_network(scope: CallerScope) -> list[Statement]:
    """Return what making, changing and destroying the network needs, beside seeing it."""
    return [
        *_make(scope),
        *_tag(scope),
        *_change(scope),
        *_name_endpoints(scope),
        *_roles(scope),
        *_bound_clusters_roles(scope),
        *_bucket(scope),
        *keep_topic(scope),
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
        allow(
            "SeeWhatStandsOnIt",
            ["autoscaling:DescribeAutoScalingGroups", "secretsmanager:ListSecrets"],
            "*",
            scope.in_region,
        ),
        allow("SeeKeysOfClustersExist", "secretsmanager:DescribeSecret", scope.secrets),
    ]


def _make(scope: CallerScope) -> list[Statement]:
    kinds = _kinds(scope)
    statements = []
    for sid, table in (
        ("MakeWithTheTag", MADE_ALONE),
        ("MakeInVpcWithTheTag", MADE_IN_VPC),
        ("MakeOfOwnWithTheTag", MADE_OF_OTHERS),
    ):
        made = [kind for kind in kinds if kind in table]
        if made:
            statements.append(
                allow(sid, of_ec2(table[kind] for kind in made), scope.ec2(*made), scope.tagged)
            )
    if "security-group" in kinds:
        statements.append(
            allow(
                "MakeRulesWithTheTag", of_ec2(RULES), scope.ec2("security-group-rule"), scope.tagged
            )
        )
    # What a new resource is made in, or of, must be the workspace's already, or given to it.
    within = of_ec2(
        action
        for table in (MADE_IN_VPC, MADE_OF_OTHERS)
        for kind, action in table.items()
        if kind in kinds
    )
    if scope.given_vpc is not None:
        return [
            *statements,
            *(
                [allow("MakeWithinGivenVpc", within, scope.ec2(f"vpc/{scope.given_vpc}"))]
                if within
                else []
            ),
        ]
    parts = ["elastic-ip", "route-table", "security-group", "subnet", "vpc"]
    return [
        *statements,
        allow(
            "MakeWithinOwn",
            within,
            scope.ec2(*(part for part in parts if part in kinds)),
            scope.owned,
        ),
    ]


def _tag(scope: CallerScope) -> list[Statement]:
    kinds = _kinds(scope)
    tables = {**MADE_ALONE, **MADE_IN_VPC, **MADE_OF_OTHERS}
    rules = ["security-group-rule"] if "security-group" in kinds else []
    born = sorted([*(tables[kind] for kind in kinds), *(RULES if rules else ())])
    statements = [
        allow(
            "TagAtBirth",
            "ec2:CreateTags",
            scope.ec2(*kinds, *rules),
            both(scope.tagged, {"StringEquals": {"ec2:CreateAction": born}}),
        ),
        # The workspace's own tag never changes, so that nothing moves between workspaces.
        allow(
            "TagOwn",
            ["ec2:CreateTags", "ec2:DeleteTags"],
            scope.ec2(*kinds, *rules),
            scope.keeping_the_tag,
        ),
    ]
    if "vpc" in kinds:
        # A VPC's default group is born with it, without tags; one that has this tag, whosever, is
        # out of reach.
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
    kinds = _kinds(scope)
    tables = [CHANGES, DUAL_STACK_CHANGES] if scope.dual_stack else [CHANGES]
    actions = of_ec2(action for table in tables for kind in kinds for action in table.get(kind, ()))
    rules = ["security-group-rule"] if "security-group" in kinds else []
    statements = [allow("ChangeAndRemoveOwn", actions, scope.ec2(*kinds, *rules), scope.owned)]
    if "elastic-ip" in kinds:
        # AWS makes and owns these interfaces, so they carry no tag; the address that is named with
        # them must be the workspace's.
        statements.append(
            allow(
                "NameInterfacesOfNatGateways",
                "ec2:DisassociateAddress",
                scope.ec2("network-interface"),
            )
        )
    return statements


def _name_endpoints(scope: CallerScope) -> list[Statement]:
    """Return what EC2 does in the caller's name to give an interface endpoint the service's own
    name; the zone is AWS's.
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
    if scope.flow_logs:
        to_flow_logs = {"StringEquals": {"iam:PassedToService": "vpc-flow-logs.amazonaws.com"}}
        statements.append(
            allow("PassRoleToFlowLogs", "iam:PassRole", scope.flow_logs_role, to_flow_logs)
        )
    services = {"StringEquals": {"iam:AWSServiceName": list(SERVICE_ROLES)}}
    return [
        *statements,
        allow("MakeServiceRoles", "iam:CreateServiceLinkedRole", scope.service_roles, services),
    ]


def _made_roles(scope: CallerScope) -> list[Statement]:
    boundary = scope.permissions_boundary
    bound = None if boundary is None else demanding(boundary)
    # Only ever this boundary, and never none: there is no right to take it away.
    bounded = MAKE_ROLES if boundary is None else MAKE_BOUNDED_ROLES
    return [
        allow("MakeRoles", list(bounded), scope.made_roles, bound),
        allow("TagAndRemoveRoles", list(TAG_AND_REMOVE_ROLES), scope.made_roles),
    ]


def _bound_clusters_roles(scope: CallerScope) -> list[Statement]:
    """Return what making and changing the bound of clusters' own roles needs: a caller who may
    change it decides how far hosts reach.
    """
    if not scope.isolated:
        return []
    # The network is not destroyed under clusters: a role may be all that is left of one. Listing
    # knows no resource.
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
                "s3:PutBucketOwnershipControls",
                "s3:PutBucketPolicy",
                "s3:PutBucketPublicAccessBlock",
                "s3:PutBucketTagging",
                "s3:PutBucketVersioning",
                "s3:PutEncryptionConfiguration",
                "s3:PutLifecycleConfiguration",
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
                # What others' hosts run.
                f"{scope.bucket}/{SOFTWARE}*",
                f"{scope.bucket}/workspace.json",
            ],
        ),
        # A bucket is removed with every version of everything in it.
        allow("EmptyBucket", ["s3:DeleteObject", "s3:DeleteObjectVersion"], f"{scope.bucket}/*"),
    ]
