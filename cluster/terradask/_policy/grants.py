"""What hosts' roles may do: the allow list of check P6.

A statement is reasoned over as a set: each of its actions, on each of its resources, has to lie
within a grant, and the grant's conditions have to hold there. Conditions beyond those only narrow.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from terradask._policy.scope import Scope, WorkspaceRules
from terradask_modules.image_rights import LOGIN_ACTION, PULL_ACTIONS, repository_arn
from terradask_modules.notice_rights import via_sns

_Conditions = Mapping[str, Mapping[str, tuple[str, ...]]]

SCHEDULER, WORKER, FLOW_LOGS = "scheduler", "worker", "flow-logs"
_HOSTS = (SCHEDULER, WORKER)


@dataclass(frozen=True)
class Grant:
    """Actions on resources; in resources ``*`` is IAM's."""

    actions: tuple[str, ...]
    resources: tuple[str, ...]
    #: Conditions that a statement has to have; its values are among these.
    conditions: _Conditions = field(default_factory=dict)
    roles: tuple[str, ...] = _HOSTS
    #: Whether the resources have to carry the workspace's tag; of a cluster's own roles its too.
    tagged: bool = False
    #: Whether a request has to give them the same tags.
    asked: bool = False


_BUCKET = "arn:{partition}:s3:::{bucket}"
_CLUSTERS = f"{_BUCKET}/clusters/{{clusters}}"
_ENVIRONMENTS = f"{_BUCKET}/environments/{{clusters}}/*"
_REPORTS = f"{_BUCKET}/reports/{{clusters}}/*.html.gz"
_JOBS = f"{_BUCKET}/reports/{{clusters}}.jobs/*.json.gz"
_LOGS = "arn:{partition}:logs:{region}:{account}:log-group:/terradask/{workspace}"
_GROUPS = (
    "arn:{partition}:autoscaling:{region}:{account}:autoScalingGroup:*:autoScalingGroupName/"
    "terradask-{workspace}-{groups}",
)
_WORKSPACE_TAG = {"aws:ResourceTag/terradask:workspace": ("{workspace}",)}
_CLUSTER_TAG = {"aws:ResourceTag/terradask:cluster": ("{cluster}",)}
#: Names of buckets are unique across all of AWS: it could be another account's.
_OWN_BUCKET = {"StringEqualsIfExists": {"aws:ResourceAccount": ("{account}",)}}
_IN_REGION = {"StringEquals": {"aws:RequestedRegion": ("{region}",)}}

_OF_THE_WORKSPACE = (
    Grant(
        ("s3:GetObject",),
        (
            f"{_BUCKET}/host/*",
            f"{_CLUSTERS}/run.json",
            f"{_CLUSTERS}/software.lock",
            f"{_CLUSTERS}/scheduler.json",
            f"{_CLUSTERS}/environment.json",
            f"{_CLUSTERS}/wheels/*",
            _ENVIRONMENTS,
        ),
        _OWN_BUCKET,
    ),
    Grant(("s3:ListBucket",), (_BUCKET,), _OWN_BUCKET),
    Grant(("s3:GetObject", "s3:PutObject"), (f"{_CLUSTERS}/hosts/*",), _OWN_BUCKET),
    Grant(
        ("s3:PutObject",),
        (
            *(f"{_CLUSTERS}/{name}.json" for name in ("closing", "environment", "scheduler")),
            _ENVIRONMENTS,
            _REPORTS,
            _JOBS,
        ),
        _OWN_BUCKET,
        roles=(SCHEDULER,),
    ),
    Grant(
        ("secretsmanager:GetSecretValue",),
        (
            "arn:{partition}:secretsmanager:{region}:{account}:secret:terradask/{workspace}/{secrets}",
        ),
    ),
    # Once: what has a group's tag keeps its tags, and its workspace and name in any case.
    Grant(
        ("ec2:CreateTags",),
        tuple(
            f"arn:{{partition}}:ec2:{{region}}:{{account}}:{kind}/*"
            for kind in ("network-interface", "volume")
        ),
        {
            "Null": {
                "aws:ResourceTag/terradask:group": ("true",),
                "aws:RequestTag/Name": ("true",),
                "aws:RequestTag/terradask:group": ("false",),
                "aws:RequestTag/terradask:cluster": ("false",),
            },
        },
        tagged=True,
        asked=True,
    ),
    Grant(("logs:CreateLogStream",), (f"{_LOGS}:*",)),
    Grant(("logs:PutLogEvents",), (f"{_LOGS}:{{streams}}",)),
    Grant(("autoscaling:TerminateInstanceInAutoScalingGroup",), _GROUPS, tagged=True),
    Grant(("autoscaling:SetDesiredCapacity",), _GROUPS, roles=(SCHEDULER,), tagged=True),
    # To zero, and nothing else: a scheduled action could also raise a group's minimum.
    Grant(
        ("autoscaling:PutScheduledUpdateGroupAction",),
        _GROUPS,
        {
            "NumericEqualsIfExists": {"autoscaling:MinSize": ("0",)},
            "Null": {"autoscaling:MaxSize": ("true",)},
        },
        roles=(SCHEDULER,),
        tagged=True,
    ),
    Grant(
        ("autoscaling:DescribeAutoScalingGroups", "autoscaling:DescribeScalingActivities"),
        ("*",),
        _IN_REGION,
        roles=(SCHEDULER,),
    ),
    # What Session Manager's agent reports of its own host: AWS documents no narrower resource
    # (https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-create-iam-instance-profile.html).
    Grant(
        (
            "ssm:UpdateInstanceInformation",
            "ssmmessages:CreateControlChannel",
            "ssmmessages:CreateDataChannel",
            "ssmmessages:OpenControlChannel",
            "ssmmessages:OpenDataChannel",
        ),
        ("*",),
        _IN_REGION,
        roles=(SCHEDULER,),
    ),
    Grant(
        (
            "logs:CreateLogStream",
            "logs:DescribeLogGroups",
            "logs:DescribeLogStreams",
            "logs:PutLogEvents",
        ),
        (f"{_LOGS}/flow-logs", f"{_LOGS}/flow-logs:*"),
        roles=(FLOW_LOGS,),
    ),
)

_KEY_ACTIONS = ("kms:Decrypt", "kms:GenerateDataKey")
_THROUGH = ("s3.{region}.{suffix}", "secretsmanager.{region}.{suffix}")
_DATA_ACTIONS = (
    "s3:AbortMultipartUpload",
    "s3:DeleteObject",
    "s3:GetObject",
    "s3:ListMultipartUploadParts",
    "s3:PutObject",
)


def grants_of(rules: WorkspaceRules, scope: Scope) -> Iterator[Grant]:
    """Yield what the hosts of a workspace may do, with what its settings allow."""
    tags = {**_WORKSPACE_TAG, **(_CLUSTER_TAG if scope.cluster is not None else {})}
    for grant in _OF_THE_WORKSPACE:
        if grant.tagged:
            asked = {key.replace("Resource", "Request", 1): it for key, it in tags.items()}
            equal = {**tags, **asked} if grant.asked else tags
            yield replace(grant, conditions={**grant.conditions, "StringEquals": equal})
        else:
            yield grant
    keys = [each for each in rules.given or () if ":kms:" in each]
    through = {"StringEquals": {"kms:ViaService": _THROUGH}}
    yield Grant(_KEY_ACTIONS, tuple(keys), through)
    for topic in (each for each in rules.given or () if ":sns:" in each):
        yield Grant(("sns:Publish",), (topic,), roles=(SCHEDULER,))
        via = {"StringEquals": {"kms:ViaService": (via_sns(topic),)}}
        yield Grant(_KEY_ACTIONS, tuple(keys), via, roles=(SCHEDULER,))
    arns = sorted(map(repository_arn, rules.container_repositories or ()))
    if arns:
        regions = tuple(sorted({arn.split(":")[3] for arn in arns}))
        yield Grant(PULL_ACTIONS, tuple(arns))
        yield Grant((LOGIN_ACTION,), ("*",), {"StringEquals": {"aws:RequestedRegion": regions}})
    for entry in rules.data_buckets or ():
        bucket, _, prefix = entry.partition("/")
        arn = f"arn:{{partition}}:s3:::{bucket}"
        under = {"StringLike": {"s3:prefix": (prefix, f"{prefix}/*")}} if prefix else {}
        yield Grant(("s3:ListBucket",), (arn,), under)
        yield Grant(("s3:GetBucketLocation",), (arn,))
        yield Grant(_DATA_ACTIONS, (f"{arn}/{prefix}/*" if prefix else f"{arn}/*",))


#: What could be data, a key, a topic or a repository: without the settings it can't be told.
_UNPROVEN = (
    Grant(
        (*_DATA_ACTIONS, "s3:ListBucket", "s3:GetBucketLocation"), ("arn:{partition}:s3:::{data}",)
    ),
    Grant(
        _KEY_ACTIONS,
        ("arn:{partition}:kms:{region}:{account}:key/{key}",),
        {"StringEquals": {"kms:ViaService": (*_THROUGH, "sns.{region}.{suffix}")}},
    ),
    Grant(("sns:Publish",), ("arn:{partition}:sns:*:*:{topic}",), roles=(SCHEDULER,)),
    Grant(PULL_ACTIONS, ("arn:{partition}:ecr:*:repository/*",)),
    Grant((LOGIN_ACTION,), ("*",)),
)


def unproven_grants(rules: WorkspaceRules) -> Iterator[Grant]:
    """Yield what the settings may allow, if they aren't known."""
    data, key, topic, *images = _UNPROVEN
    if rules.data_buckets is None:
        yield data
    if rules.given is None:
        yield from (key, topic)
    if rules.container_repositories is None:
        yield from images


@dataclass(frozen=True)
class Within:
    """Whether texts lie within a grant's patterns, in one workspace."""

    scope: Scope

    def holds(self, pattern: str, text: str) -> bool:
        """Return whether all that a text stands for, wildcards included, is within a pattern.

        The pattern's ``*`` takes in any wildcard of the text; every other letter has to be the
        same, so that a wildcard of the text is never wider.
        """
        return _compiled(self.scope, pattern).fullmatch(text) is not None


@functools.lru_cache(maxsize=1024)
def _compiled(scope: Scope, pattern: str) -> re.Pattern[str]:
    words = {**scope.patterns, **_of_cluster(scope)}
    parts = re.split(r"(\{[a-z]+\}|\*)", pattern)
    return re.compile(
        "".join(
            ".*"
            if part == "*"
            else f"(?:{words[part[1:-1]]})"
            if part.startswith("{")
            else re.escape(part)
            for part in parts
        ),
        re.DOTALL,
    )


def _of_cluster(scope: Scope) -> dict[str, str]:
    """Return the parts that a cluster's own roles narrow to the cluster."""
    cluster = scope.cluster and re.escape(scope.cluster)
    return {
        "clusters": cluster or ".*",
        "secrets": rf"{cluster}-\?{{6}}" if cluster else ".*",
        "groups": f"{cluster}-.*" if cluster else ".*",
        "streams": f"log-stream:{cluster}/.*" if cluster else ".*",
        # A bucket by its name, none of terradask's; a key by its id; one topic.
        "data": r"(?!terradask-)[a-z0-9.-]+(?:/[^?]*)?",
        "key": "[0-9a-f-]+",
        "topic": "[A-Za-z0-9_-]+",
    }
