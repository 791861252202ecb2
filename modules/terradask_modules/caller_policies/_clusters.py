"""Rights to deploy, start, scale, stop, destroy and attach to clusters on an existing network."""

from __future__ import annotations

from collections.abc import Sequence

from terradask_modules.caller_policies._by_kind import keep_of_each, of_each, of_ec2, see_in_ec2
from terradask_modules.caller_policies._network_reading import see_prices
from terradask_modules.caller_policies._own_things import change_own_things, see_own_things
from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.caller_policies._state import NEW_OBJECT, record_unlocks
from terradask_modules.iam import Condition, Statement, allow, both, present, statement
from terradask_modules.image_rights import pull_statements
from terradask_modules.names import (
    ACCOUNTS,
    HISTORY,
    REPORTED_EVENTS,
    REPORTS,
    SESSION_DOCUMENT,
    SOFTWARE,
    STARTING,
    TAG_CLUSTER,
    TAG_GROUP,
    TAG_ROLE,
    TAG_WORKSPACE,
)
from terradask_modules.policies import move_watchdog
from terradask_modules.task_rights import USE_KEY

#: Parts that an instance is launched with, tagged by its launch template.
_BORN_WITH_AN_INSTANCE = ("instance", "network-interface", "volume")


def see_clusters(scope: CallerScope) -> list[Statement]:
    """Return the rights to plan and read clusters."""
    return [
        scope.see(
            "SeeGroupsAndTypes",
            [
                "autoscaling:DescribeAutoScalingGroups",
                # Why launches fail, and which zone a new cluster should avoid.
                "autoscaling:DescribeScalingActivities",
                "ec2:DescribeCapacityReservations",
                "ec2:DescribeInstanceTypeOfferings",
                "ec2:DescribeInstanceTypes",
                "ec2:DescribeLaunchTemplateVersions",
                *of_ec2(see_in_ec2(of_each())),
                "ec2:DescribeSpotPriceHistory",
                # AWS (believed): Resource Groups needs no other right to list a group of
                # reservations, which has no query by tags or by a stack.
                "resource-groups:ListGroupResources",
            ],
        ),
        see_prices(),
        allow(
            "SeeKeysExist",
            ["secretsmanager:DescribeSecret", "secretsmanager:GetResourcePolicy"],
            scope.secrets,
        ),
        # For missing objects. AWS (s3-403-or-404)
        allow("ListObjects", "s3:ListBucket", scope.bucket),
        allow(
            "ReadBaselineAndClusters",
            ["s3:GetObject", "s3:GetObjectTagging"],
            [
                f"{scope.bucket}/applied/*",
                f"{scope.bucket}/clusters/*",
                f"{scope.bucket}/{SOFTWARE}*",
                f"{scope.bucket}/workspace.json",
            ],
        ),
        # Terraform reads the version in its state, which is another action.
        allow("ReadVersionOfBaseline", "s3:GetObjectVersion", f"{scope.bucket}/workspace.json"),
        *see_own_things(scope),
    ]


def lock_states(scope: CallerScope) -> Statement:
    """Return the right to lock clusters' states, which every plan does."""
    return allow(
        "LockStates", ["s3:DeleteObject", "s3:PutObject"], f"{scope.bucket}/clusters/*.tflock"
    )


def change_clusters(scope: CallerScope) -> list[Statement]:
    """Return the rights to make, start, scale, stop and destroy clusters, beside seeing them."""
    return [
        *_make_groups(scope),
        *_change_groups(scope),
        # Names of a longer workspace's name have the same prefix, so the tag decides.
        allow(
            "MoveNumbers",
            [
                "autoscaling:BatchDeleteScheduledAction",
                "autoscaling:DeleteAutoScalingGroup",
                "autoscaling:ResumeProcesses",
                "autoscaling:SetDesiredCapacity",
                "autoscaling:SetInstanceProtection",
                "autoscaling:SuspendProcesses",
            ],
            scope.groups,
            scope.own,
        ),
        *_keep_pools(scope),
        move_watchdog(scope.groups, scope.own),
        # Others' scheduled actions would raise a stopped cluster again.
        scope.see("SeeSchedules", "autoscaling:DescribeScheduledActions"),
        # A group's owner and role never change: it can't move to another workspace or cluster.
        allow(
            "TagGroups",
            ["autoscaling:CreateOrUpdateTags", "autoscaling:DeleteTags"],
            scope.groups,
            scope.keeping(scope.own, TAG_WORKSPACE, TAG_CLUSTER, TAG_ROLE, TAG_GROUP),
        ),
        *_launch(scope),
        allow(
            "KeepSecrets",
            [
                "secretsmanager:CreateSecret",
                "secretsmanager:DeleteResourcePolicy",
                "secretsmanager:DeleteSecret",
                "secretsmanager:PutSecretValue",
                # A stop removes the keys by it.
                "secretsmanager:UpdateSecretVersionStage",
            ],
            scope.own_secrets,
        ),
        # A secret is tagged as a cluster's when it is made, and stays that cluster's.
        allow(
            "TagSecretsAtBirth",
            "secretsmanager:TagResource",
            scope.own_secrets,
            both(scope.tagged_for_a_cluster, scope.moving_to_no_other_cluster),
        ),
        allow(
            "TagSecrets",
            ["secretsmanager:TagResource", "secretsmanager:UntagResource"],
            scope.own_secrets,
            scope.keeping({}, TAG_WORKSPACE, TAG_CLUSTER),
        ),
        allow(
            "NoteWhatWasApplied",
            ["s3:DeleteObject", "s3:PutObject"],
            scope.objects("applied/clusters/", ".json"),
        ),
        record_unlocks("RecordUnlocks", scope.bucket),
        allow("ListVersions", "s3:ListBucketVersions", scope.bucket),
        allow(
            "WriteClusters",
            ["s3:DeleteObject", "s3:DeleteObjectVersion", "s3:PutObject", "s3:PutObjectTagging"],
            scope.objects("clusters/", "/*"),
        ),
        # Callers update runs' costs, and have no right to remove them.
        allow("ReadAccounts", "s3:GetObject", f"{scope.bucket}/{ACCOUNTS}*"),
        allow("KeepAccounts", "s3:PutObject", scope.objects(f"{ACCOUNTS}*/", ".json")),
        # No name is in it: starts of all clusters take turns.
        allow("TakeTurns", "s3:PutObject", f"{scope.bucket}/{ACCOUNTS}{STARTING}"),
        # The record of actions: existing entries are neither changed nor removed. IAM can't check
        # the name in a new one.
        allow("ReadHistory", "s3:GetObject", f"{scope.bucket}/{HISTORY}*"),
        allow("NoteHistory", "s3:PutObject", f"{scope.bucket}/{HISTORY}*", NEW_OBJECT),
        # A tag's digest is read when a cluster is planned.
        *pull_statements(scope.hosts.container_repositories),
        *keep_of_each(scope),
        *change_own_things(scope),
    ]


def read_logs(scope: CallerScope) -> Statement:
    """Return the right to read hosts' and tasks' output: not for pipelines that only plan."""
    return allow(
        "ReadLogs", ["logs:DescribeLogStreams", "logs:FilterLogEvents"], scope.hosts_log_group
    )


def keep_reports(scope: CallerScope) -> list[Statement]:
    """Return the rights to read runs' reports, and to store their events.

    Not for pipelines that only plan. No caller changes schedulers' reports.
    """
    return [
        allow("ReadReports", "s3:GetObject", f"{scope.bucket}/{REPORTS}*"),
        allow("KeepEvents", "s3:PutObject", scope.objects(REPORTS, f"/{REPORTED_EVENTS}")),
    ]


def sweep_strays(scope: CallerScope) -> list[Statement]:
    """Return the rights to find and remove orphaned instances and parts, and read their costs."""
    return [
        scope.see(
            "SeeStrays",
            [
                "ec2:DescribeInstances",
                "ec2:DescribeNetworkInterfaces",
                "ec2:DescribeVolumes",
                "secretsmanager:ListSecrets",
            ],
        ),
        allow(
            "RemoveStrays",
            ["ec2:DeleteNetworkInterface", "ec2:DeleteVolume", "ec2:TerminateInstances"],
            scope.ec2(*_BORN_WITH_AN_INSTANCE),
            scope.own,
        ),
    ]


def use_key(scope: CallerScope) -> list[Statement]:
    """Return the use of the customer's key for objects and secrets, only through S3 and Secrets
    Manager.
    """
    if scope.hosts.kms_key_arn is None:
        return []
    through = scope.where.through("s3", "secretsmanager")
    return [allow("UseKeyOfWorkspace", list(USE_KEY), scope.hosts.kms_key_arn, through)]


def read_keys(scope: CallerScope) -> Statement:
    """Return the right to attach: a caller who reads a cluster's keys may run code on it."""
    return allow("AttachToClusters", "secretsmanager:GetSecretValue", scope.own_secrets)


def read_no_keys(scope: CallerScope) -> Statement:
    """Return the denial of reading keys, whatever else allows it, such as a policy on the secret.

    AWS (documented): Secrets Manager BatchGetSecretValue needs GetSecretValue on each secret, too.
    https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_BatchGetSecretValue.html
    """
    action = "secretsmanager:GetSecretValue"
    return statement("Deny", action, sid="ReadNoKeys", resource=scope.secrets)


def make_private(secrets: str | Sequence[str]) -> list[Statement]:
    """Return the right to set a private cluster's secret policy, and so to choose its readers.

    IAM has no condition on a policy's content.
    """
    if not secrets:
        return []
    resources = secrets if isinstance(secrets, str) else list(secrets)
    return [allow("MakePrivate", "secretsmanager:PutResourcePolicy", resources)]


def open_sessions(scope: CallerScope) -> list[Statement]:
    """Return the right to forward ports of this workspace's schedulers, by one document, and to end
    own sessions.

    AWS (documented): Systems Manager StartSession without a document opens a shell, unless a policy
    demands a document by ssm:SessionDocumentAccessCheck.
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-specify-session-document.html

    AWS (documented, ssm-session-tags): Session Manager tags a session with its owner's
    aws:userid; the session's id begins with a name, which several roles' sessions can share.
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html
    """
    if not scope.session_manager:
        return []
    where = scope.where
    schedulers = {
        f"ssm:resourceTag/{TAG_WORKSPACE}": scope.workspace,
        f"ssm:resourceTag/{TAG_ROLE}": "scheduler",
    }
    named = {"BoolIfExists": {"ssm:SessionDocumentAccessCheck": "true"}}
    own = scope.named(f"ssm:resourceTag/{TAG_CLUSTER}") if scope.limits.clusters else {}
    document = where.aws_arn("ssm", f"document/{SESSION_DOCUMENT}")
    return [
        allow(
            "OpenSessionsToSchedulers",
            "ssm:StartSession",
            scope.ec2("instance"),
            {"StringEquals": schedulers, **own, **named},
        ),
        allow("ForwardPortsInSessions", "ssm:StartSession", document, named),
        allow(
            "KeepOwnSessions",
            ["ssm:ResumeSession", "ssm:TerminateSession"],
            where.arn("ssm", "session/*"),
            {"StringEquals": {"ssm:resourceTag/aws:ssmmessages:session-id": "${aws:userid}"}},
        ),
    ]


#: AWS (documented): Auto Scaling evaluates the keys autoscaling:LaunchConfigurationName and MinSize
#: when a group is made or changed.
#: https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
_OF_OWN_SHAPE = {
    "Null": {"autoscaling:LaunchConfigurationName": "true"},
    "NumericEqualsIfExists": {"autoscaling:MinSize": "0"},
}


def _make_groups(scope: CallerScope) -> list[Statement]:
    """Return the right to make groups with a cluster's tags, of a launch template, and without a
    minimum, which would keep them from zero.

    A group without a cluster would be in no list of clusters.

    Launch configurations and instances, of which AWS makes one, are excluded: they could be any
    user's. A call that names a template has one of these keys.
    """
    sids = {
        "MakeGroups": "autoscaling:LaunchTemplateVersionSpecified",
        "MakeMixedGroups": "autoscaling:InstanceTypes",
    }
    if scope.limits.bound_types:
        # A template alone has its type where no condition sees it.
        del sids["MakeGroups"]
    return [
        allow(
            sid,
            "autoscaling:CreateAutoScalingGroup",
            scope.groups,
            both(
                scope.tagged_for_a_cluster_in_this_case,
                _OF_OWN_SHAPE,
                present(key),
                scope.limits.in_new_groups,
            ),
        )
        for sid, key in sids.items()
    ]


def _change_groups(scope: CallerScope) -> list[Statement]:
    """Return the right to change groups, without a minimum either."""
    sids = ("ChangeGroups", "ChangeTypesOfGroups")
    return [
        allow(
            sid,
            "autoscaling:UpdateAutoScalingGroup",
            scope.groups,
            both(scope.own, _OF_OWN_SHAPE, limit),
        )
        for sid, limit in zip(sids, scope.limits.in_changed_groups, strict=False)
    ]


def _keep_pools(scope: CallerScope) -> list[Statement]:
    """Return the rights to make, change and remove the pools of prepared hosts.

    No condition of IAM bounds a pool's size, and one of running instances is beyond the group's
    maximum: a caller with limits has none.
    """
    if scope.limits.max_workers is not None:
        return []
    return [
        scope.see("SeePools", "autoscaling:DescribeWarmPool"),
        allow(
            "KeepPools",
            [
                "autoscaling:DeleteWarmPool",
                "autoscaling:PutLifecycleHook",
                "autoscaling:PutWarmPool",
            ],
            scope.groups,
            scope.own,
        ),
    ]


def _launch(scope: CallerScope) -> list[Statement]:
    """Return the rights that AWS requires to make or change a group on a launch template.

    AWS checks ``RunInstances`` with the caller's permissions.
    """
    templates = scope.ec2("launch-template")[0]
    given = scope.given_parts
    roles = scope.of_own_clusters("role") if scope.isolated else scope.roles
    from_template = {"ArnLike": {"ec2:LaunchTemplate": templates}}
    return [
        *_launch_from_template(scope),
        *([allow("LaunchOnGivenNetwork", "ec2:RunInstances", given)] if given else []),
        # By a template, so that no caller launches other instances beside the groups.
        *(
            allow(
                sid,
                "ec2:RunInstances",
                scope.ec2(*parts),
                both(scope.tagged_as_own, from_template, of),
            )
            for sid, parts, of in _born(scope)
        ),
        allow(
            "LaunchImageOfTemplate",
            "ec2:RunInstances",
            scope.images,
            both(from_template, {"Bool": {"ec2:IsLaunchTemplateResource": "true"}}),
        ),
        # Beside an instance, which the statement above binds. AWS (cr-rights): a resource group has
        # no condition keys. A reservation may be another account's, which has shared it.
        allow(
            "LaunchIntoReservations",
            "ec2:RunInstances",
            [
                scope.where.aws_arn("ec2", "capacity-reservation/*").replace("::", ":*:"),
                scope.where.arn("resource-groups", "group/*"),
            ],
        ),
        scope.tag_at_birth(
            "TagAtLaunch", scope.ec2(*_BORN_WITH_AN_INSTANCE), scope.tagged_as_own, "RunInstances"
        ),
        allow("PassRolesOfHosts", "iam:PassRole", roles, scope.to_instances),
    ]


def _launch_from_template(scope: CallerScope) -> list[Statement]:
    """Return the right to launch from templates of the workspace, or of the caller's clusters, in
    parts of the network.
    """
    run, network, own = "ec2:RunInstances", scope.where.own, scope.own_parts
    if not scope.limits.clusters:
        return [
            allow("LaunchOnOwnNetwork", run, scope.ec2("launch-template", *own), network),
        ]
    return [
        allow("LaunchFromOwnTemplates", run, scope.ec2("launch-template"), scope.own),
        *([allow("LaunchOnOwnNetwork", run, scope.ec2(*own), network)] if own else []),
    ]


def _born(scope: CallerScope) -> list[tuple[str, tuple[str, ...], Condition]]:
    """Return the statements' names, the parts of a launch, and their limits: only an instance has a
    type.
    """
    of_types = scope.limits.in_launches
    if not of_types:
        return [("LaunchWithTheTag", _BORN_WITH_AN_INSTANCE, {})]
    instance, *others = _BORN_WITH_AN_INSTANCE
    return [
        ("LaunchWithTheTag", (instance,), of_types),
        ("LaunchPartsWithTheTag", tuple(others), {}),
    ]
