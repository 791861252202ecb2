"""Rights of hosts in the account, as IAM policy documents. Pure: no construct.

Every right to change names this workspace's resources, by name and, where names could overlap with
another workspace's, by tag.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from terradask_modules.iam import (
    Condition,
    Statement,
    allow,
    both,
    deny,
    deny_without_tls,
    listed,
    one_or_many,
    only_in_account,
    policy_text,
    statement,
)
from terradask_modules.image_rights import pull_statements
from terradask_modules.kinds.end_topic import PUBLISH, notice_statements
from terradask_modules.names import (
    ENVIRONMENTS,
    JOBS,
    REPORTS,
    TAG_CLUSTER,
    TAG_GROUP,
    resource_name,
)
from terradask_modules.partitions import dns_suffix
from terradask_modules.task_limits import guard_statements
from terradask_modules.task_rights import (
    USE_KEY,
    DataBucket,
    TaskPolicy,
    TaskRight,
    clusters_of,
    data_statements,
    policy_statements,
    right_statements,
    shared,
)
from terradask_modules.where import ClusterWhere, Where

#: Objects of a cluster that a host reads, without Terraform's state.
_READABLE = ("run.json", "software.lock", "scheduler.json", "environment.json", "wheels/*")

#: Actions of hosts outside the cluster that can be on a resource with the workspace's tag.
_OUTSIDE = (*USE_KEY, PUBLISH, "ssm:UpdateInstanceInformation", "ssmmessages:*")

#: The cluster of the calling role, in a policy of all roles.
_OF_THE_ROLE = f"${{aws:PrincipalTag/{TAG_CLUSTER}}}"

_SCHEDULE = "autoscaling:PutScheduledUpdateGroupAction"
#: Condition of a scheduled action: it sets numbers, and no limits of the group.
_NO_LIMITS: Condition = {
    "NumericEqualsIfExists": {"autoscaling:MinSize": "0"},
    "Null": {"autoscaling:MaxSize": "true"},
}


@dataclass(frozen=True, kw_only=True)
class PolicyScope:
    """The limits of a role's rights."""

    #: The workspace; or the one cluster that the hosts belong to.
    where: Where
    #: Data that hosts may use; a text is a ``bucket`` or ``bucket/prefix`` that they may write.
    data_buckets: Sequence[str | DataBucket] = ()
    #: `task_rights`, `task_policies`: The rights that the settings list, for tasks of all clusters
    #: or of some: statements, and managed policies.
    task_rights: Sequence[TaskRight] = ()
    task_policies: Sequence[TaskPolicy] = ()
    #: Repositories of Amazon ECR whose images hosts may pull.
    container_repositories: Sequence[str] = ()
    #: The customer's key for the bucket and the secrets. None: AWS's own.
    kms_key_arn: str | None = None
    #: The cluster's own names of its groups; used with a cluster alone.
    groups: Sequence[str] = ()
    #: `session_manager`, `notify_topic_arn`: Whether clients use Session Manager; the topic for
    #: notices of clusters' ends, or None.
    session_manager: bool = False
    notify_topic_arn: str | None = None

    @property
    def attached(self) -> list[TaskPolicy]:
        """The policies that are attached to a role of all clusters' hosts, or of this cluster's."""
        return shared(self.task_policies)

    @property
    def objects_arn(self) -> str:
        """Prefix of the ARNs of clusters' objects."""
        return f"{self.where.bucket_arn}/clusters/{self.where.cluster or '*'}"

    @property
    def environments_arn(self) -> str:
        """ARN pattern of the environments that clusters' schedulers have built."""
        return f"{self.where.bucket_arn}/{ENVIRONMENTS}{self.where.cluster or '*'}/*"

    @property
    def report_arns(self) -> list[str]:
        """ARN patterns of the reports that clusters' schedulers make, with what workers used, and
        of jobs' records.
        """
        begin = f"{self.where.bucket_arn}/{REPORTS}{self.where.cluster or '*'}"
        return [f"{begin}/*.html.gz", f"{begin}/*.usage.json.gz", f"{begin}{JOBS}*.json.gz"]

    @property
    def group_arns(self) -> list[str]:
        """ARN patterns of Auto Scaling groups. They also match longer workspace names: bind them to
        the tag.
        """
        where = self.where
        names = [resource_name(where.workspace, "*")]
        if isinstance(where, ClusterWhere):
            names = [where.group_name(group) for group in self.groups]
        return [where.group_arn(name) for name in names]


def trust_policy(partition: str) -> str:
    """Return the document by which only EC2 may pass a role to instances."""
    service = {"Service": f"ec2.{dns_suffix(partition)}"}
    return policy_text([statement("Allow", "sts:AssumeRole", principal=service)])


def scheduler_policy(scope: PolicyScope) -> str:
    """Return a scheduler's host's rights: a worker's, and to change its cluster's numbers."""
    return policy_text(
        [
            *host_statements(scope, "scheduler"),
            *access_statements(scope),
            *scheduler_access_statements(scope),
        ]
    )


def worker_policy(scope: PolicyScope) -> str:
    """Return a worker's host's rights."""
    return policy_text([*host_statements(scope, "worker"), *access_statements(scope)])


def bounding_statements(scope: PolicyScope, *, of_each: bool = False) -> list[Statement]:
    """Return the rights of any host of the workspace: a scheduler's contain a worker's. With
    `of_each`, of any host of the cluster whose tag the role has.

    AWS (documented): IAM replaces policy variables in permissions boundaries, too, such as a tag of
    the calling role; a session's tags replace the role's.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html,
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_session-tags.html
    """
    if of_each:
        scope = replace(scope, where=scope.where.of_cluster(_OF_THE_ROLE), groups=("*",))
    everywhere = [
        *host_statements(scope, "scheduler"),
        *access_statements(scope),
        *scheduler_access_statements(scope),
    ]
    return [
        # A bound needs no denials: it allows attached policies what was read of them.
        *(
            _in_whole_folder(one, scope.objects_arn) if of_each else one
            for one in everywhere
            if one["Effect"] == "Allow"
        ),
        *(
            _only_of([cluster], one) if of_each else one
            for cluster in clusters_of(scope.task_rights)
            for one in right_statements(scope.task_rights, cluster)
        ),
        *(
            _only_of(policy.clusters, one) if of_each and policy.clusters else one
            for policy in scope.task_policies
            for one in policy_statements([policy])
        ),
        *([_only_instances()] if of_each else []),
    ]


def _in_whole_folder(one: Statement, folder: str) -> Statement:
    """Return a statement for all objects of a cluster in place of single ones: a role's own policy
    names them, and a managed policy is too short.
    """
    found = (
        f"{folder}/*" if arn.startswith(f"{folder}/") else arn for arn in listed(one["Resource"])
    )
    return {**one, "Resource": one_or_many(dict.fromkeys(found))}


def _only_of(clusters: Sequence[str], one: Statement) -> Statement:
    """Return a statement for roles of clusters alone."""
    own = {"StringEquals": {f"aws:PrincipalTag/{TAG_CLUSTER}": one_or_many(clusters)}}
    return {**one, "Condition": both(one.get("Condition", {}), own)}


def _only_instances() -> Statement:
    """Return the denial of everything to other sessions: who makes a role decides who may assume
    it, with which tags.

    AWS (documented): IAM's key aws:EC2InstanceSourceVPC is present if an instance's own credentials
    sign a request; calls of a service in their name have aws:ViaAWSService.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
    """
    of_others = {
        "Null": {"aws:EC2InstanceSourceVPC": "true"},
        "BoolIfExists": {"aws:ViaAWSService": "false"},
    }
    return deny("OnlyInstances", "*", "*", of_others)


def host_statements(scope: PolicyScope, role: str) -> list[Statement]:
    """Return hosts' rights within the cluster: read, report, log, leave; a scheduler's scales. With
    attached policies, also what these can't change.
    """
    statements = _host_statements(scope, role)
    actions = {action for one in statements for action in listed(one["Action"])}
    return [
        *only_in_account(statements, scope.where.bucket_arn, scope.where.account),
        *(guard_statements(scope.where, role, {*actions, *_OUTSIDE}) if scope.attached else []),
    ]


def _host_statements(scope: PolicyScope, role: str) -> list[Statement]:
    groups = one_or_many(scope.group_arns)
    leave = "autoscaling:TerminateInstanceInAutoScalingGroup"
    # A prepared host lets AWS stop it, and later take it into service.
    join = "autoscaling:CompleteLifecycleAction"
    if role != "scheduler":
        return [*_common(scope), allow("JoinAndLeave", [join, leave], groups, scope.where.own)]
    return [
        *_common(scope),
        # The scheduler's address or the cluster's end, the mark for deletion, and the environment,
        # which other hosts run and can't write.
        allow(
            "TellOfCluster",
            ["s3:AbortMultipartUpload", "s3:PutObject"],
            [
                *(
                    f"{scope.objects_arn}/{name}.json"
                    for name in ("closing", "environment", "scheduler")
                ),
                scope.environments_arn,
                *scope.report_arns,
            ],
        ),
        # In one statement: a cluster's groups are listed once, and a role's policies are limited in
        # length. The watchdog's conditions hold for actions without limits.
        allow(
            "MoveOwnGroups",
            [join, "autoscaling:SetDesiredCapacity", leave, _SCHEDULE],
            groups,
            both(scope.where.own, _NO_LIMITS),
        ),
        # Groups, and why they launch nothing.
        # AWS (documented, asg-describe): Auto Scaling's Describe actions have no resource in IAM.
        # https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazonec2autoscaling.html
        allow(
            "SeeGroups",
            ["autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"],
            "*",
            scope.where.here,
        ),
    ]


def move_watchdog(groups: str | list[str], own: Condition) -> Statement:
    """Return the right to schedule a group's numbers, as the watchdog does, but not its limits.

    A minimum above 0 would make every stop fail.
    """
    return allow("MoveWatchdog", _SCHEDULE, groups, both(own, _NO_LIMITS))


def bucket_policy(bucket_arn: str) -> str:
    """Return the document that refuses every request without TLS."""
    return policy_text([deny_without_tls("TlsOnly", bucket_arn)])


def _common(scope: PolicyScope) -> list[Statement]:
    bucket = scope.where.bucket_arn
    own = [f"{scope.objects_arn}/{name}" for name in _READABLE]
    readable = [f"{bucket}/host/*", *own, scope.environments_arn]
    return [
        allow("ReadWorkspace", "s3:GetObject", readable),
        # Hosts wait for such objects.
        # AWS (documented, s3-403-or-404): S3 answers 404 for a missing object to callers with
        # s3:ListBucket, and 403 to others.
        # https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html
        allow("TellAbsentFromForbidden", "s3:ListBucket", bucket),
        # A report replaces only the previous one.
        # AWS (documented, s3-if-match-right): S3 requires s3:GetObject for a write with If-Match.
        # https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        allow("ReportState", ["s3:GetObject", "s3:PutObject"], f"{scope.objects_arn}/hosts/*"),
        allow("ReadKeys", "secretsmanager:GetSecretValue", scope.where.secrets_arn),
        tag_own_parts(scope),
        *_log_statements(scope),
    ]


def tag_own_parts(scope: PolicyScope) -> Statement:
    """Return the right to tag volumes and network interfaces once: those with the workspace's tag
    and without `TAG_GROUP`, which the request must set.

    IAM can't compare a volume with the calling instance. The workspace's tag can't change, nor the
    name, by which a sweep identifies hosts' parts.
    """
    where = scope.where
    asked = {f"aws:RequestTag/{key}": value for key, value in where.tags.items()}
    once = {
        f"aws:ResourceTag/{TAG_GROUP}": "true",
        "aws:RequestTag/Name": "true",
        f"aws:RequestTag/{TAG_GROUP}": "false",
        f"aws:RequestTag/{TAG_CLUSTER}": "false",
    }
    parts = [where.arn("ec2", f"{kind}/*") for kind in ("network-interface", "volume")]
    return allow(
        "TagOwnParts",
        "ec2:CreateTags",
        parts,
        both(where.own, {"StringEquals": asked}, {"Null": once}),
    )


def _log_statements(scope: PolicyScope) -> list[Statement]:
    group = scope.where.log_group_arn
    if scope.where.cluster is None:
        return [allow("WriteLogs", ["logs:CreateLogStream", "logs:PutLogEvents"], f"{group}:*")]
    return [
        # A stream is made in the group, which all clusters share; events are written to a stream.
        allow("MakeLogStreams", "logs:CreateLogStream", f"{group}:*"),
        allow("WriteLogs", "logs:PutLogEvents", f"{group}:log-stream:{scope.where.cluster}/*"),
    ]


def access_statements(scope: PolicyScope) -> list[Statement]:
    """Return hosts' rights outside the workspace: data, the customer's key, images, and what the
    settings list.
    """
    return [
        *data_statements(scope.where, scope.data_buckets),
        *_key_statements(scope),
        *pull_statements(scope.container_repositories),
        *right_statements(scope.task_rights),
    ]


def scheduler_access_statements(scope: PolicyScope) -> list[Statement]:
    """Return schedulers' hosts' own rights: their topic, and Session Manager's agent.

    The agent runs no commands, so ``ec2messages`` isn't included.

    AWS (documented, ssm-agent-rights): Session Manager's agent needs ssmmessages'
    CreateControlChannel, CreateDataChannel, OpenControlChannel and OpenDataChannel.
    https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html
    """
    notice = notice_statements(scope.notify_topic_arn, scope.kms_key_arn)
    if not scope.session_manager:
        return notice
    channels = [
        f"ssmmessages:{verb}{kind}Channel"
        for verb in ("Create", "Open")
        for kind in ("Control", "Data")
    ]
    agent = allow(
        "ServeSessions", ["ssm:UpdateInstanceInformation", *channels], "*", scope.where.here
    )
    return [agent, *notice]


def _key_statements(scope: PolicyScope) -> list[Statement]:
    if scope.kms_key_arn is None:
        return []
    through = scope.where.through("s3", "secretsmanager")
    return [allow("UseKey", list(USE_KEY), scope.kms_key_arn, through)]
