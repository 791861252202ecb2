"""What the roles of hosts may do, act by act, as IAM would decide: in a workspace that clusters
share, and where each is by itself.

Each act stands with what an attacker on a host would gain by it. The simulator's door asks the same
policies in whole lives.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from terradask_modules.policies import PolicyScope, scheduler_policy, worker_policy
from terradask_modules.task_rights import DataBucket, TaskRight
from terradask_modules.where import Where
from terradask_simulator.iam import Policy, Request, evaluate

ACCOUNT, REGION = "123456789012", "us-east-1"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/0123abcd"
SHARED = PolicyScope(
    where=Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default"),
    data_buckets=("lake/raw", DataBucket(path="prices/2026", access="read", kms_key_arn=KEY)),
    task_rights=(
        TaskRight(
            reason="orders",
            actions=("dynamodb:GetItem",),
            resources=(f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/orders",),
        ),
    ),
    container_repositories=(f"{ACCOUNT}.dkr.ecr.{REGION}.amazonaws.com/dask",),
)
ISOLATED = replace(SHARED, where=SHARED.where.of_cluster("etl"), groups=("scheduler", "workers"))
SCOPES = {"shared": SHARED, "isolated": ISOLATED}
ROLES = {"scheduler": scheduler_policy, "worker": worker_policy}

BUCKET = f"arn:aws:s3:::terradask-default-{ACCOUNT}-{REGION}"
#: Secrets Manager puts six characters behind a secret's name.
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:terradask/"
STREAMS = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/terradask/"
BOTH, SCHEDULER, NOBODY = frozenset(ROLES), frozenset({"scheduler"}), frozenset()


def group(name: str) -> str:
    group = f"autoScalingGroup:0f-1:autoScalingGroupName/terradask-{name}"
    return f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:{group}"


def tagged(workspace: str, cluster: str) -> dict[str, str]:
    return {
        "aws:ResourceTag/terradask:workspace": workspace,
        "aws:ResourceTag/terradask:cluster": cluster,
    }


OWN, SISTER, LONGER, FOREIGN = (
    tagged("default", "etl"),
    tagged("default", "ml"),
    tagged("default-two", "etl"),
    {},
)
TAG, EC2 = "ec2:CreateTags", f"arn:aws:ec2:{REGION}:{ACCOUNT}"
VOLUME = f"{EC2}:volume/vol-1"


def asked(workspace: str, cluster: str) -> dict[str, str]:
    """Return the tags of a request that says whose something is to be."""
    tags = {**tagged(workspace, cluster), "aws:ResourceTag/terradask:group": "workers"}
    return {key.replace("Resource", "Request"): value for key, value in tags.items()}


MINE = asked("default", "etl")
MINE_WITHOUT_GROUP = {key: value for key, value in MINE.items() if not key.endswith(":group")}
MINE_WITHOUT_CLUSTER = {key: value for key, value in MINE.items() if not key.endswith(":cluster")}
#: As a template makes it, before its host has tagged it, and after.
FRESH, TAGGED = OWN, {"aws:ResourceTag/terradask:group": "workers"}
HERE, ELSEWHERE = {"aws:RequestedRegion": REGION}, {"aws:RequestedRegion": "eu-west-1"}
TO_EC2 = {"iam:PassedToService": "ec2.amazonaws.com"}


@dataclass(frozen=True)
class Act:
    """Something to do to something, and the roles that may, where clusters share a workspace and
    where they don't.
    """

    action: str
    resource: str
    shared: frozenset[str]
    isolated: frozenset[str]
    context: dict[str, str] = field(default_factory=dict)


def never(action: str, resource: str = "*", context: dict[str, str] | None = None) -> Act:
    return Act(action, resource, NOBODY, NOBODY, context or {})


def within(
    action: str, resource: str, roles: frozenset[str] = BOTH, context: dict[str, str] | None = None
) -> Act:
    """Be allowed at one's own cluster."""
    return Act(action, resource, roles, roles, context or {})


def sisters(
    action: str, resource: str, roles: frozenset[str] = BOTH, context: dict[str, str] | None = None
) -> Act:
    """Be allowed at another cluster of the workspace, unless clusters are isolated."""
    return Act(action, resource, roles, NOBODY, context or {})


LEAVE, JOIN, MOVE, AHEAD, LOOK, WHY = (
    f"autoscaling:{name}"
    for name in (
        "TerminateInstanceInAutoScalingGroup",
        "CompleteLifecycleAction",
        "SetDesiredCapacity",
        "PutScheduledUpdateGroupAction",
        "DescribeAutoScalingGroups",
        "DescribeScalingActivities",
    )
)
TABLES = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/"
THROUGH_S3 = {"kms:ViaService": f"s3.{REGION}.amazonaws.com"}
IMAGES = f"arn:aws:ecr:{REGION}:{ACCOUNT}:repository/"
ACTS = {
    # Images
    "pulls its image": within("ecr:BatchGetImage", f"{IMAGES}dask"),
    "fetches its image's layers": within("ecr:GetDownloadUrlForLayer", f"{IMAGES}dask"),
    "logs in to its registry": within("ecr:GetAuthorizationToken", "*", context=HERE),
    "logs in to a registry elsewhere": never("ecr:GetAuthorizationToken", "*", ELSEWHERE),
    "pulls another image": never("ecr:BatchGetImage", f"{IMAGES}payroll"),
    "pulls an image whose name begins alike": never("ecr:BatchGetImage", f"{IMAGES}dask-2"),
    "replaces the image that all hosts run": never("ecr:PutImage", f"{IMAGES}dask"),
    "deletes the image that all hosts run": never("ecr:BatchDeleteImage", f"{IMAGES}dask"),
    # Objects
    "reads the host program": within("s3:GetObject", f"{BUCKET}/host/0a/terradask_host.whl"),
    "replaces the host program: root on every new host": never(
        "s3:PutObject", f"{BUCKET}/host/0a/terradask_host.whl"
    ),
    "reads its cluster's run": within("s3:GetObject", f"{BUCKET}/clusters/etl/run.json"),
    "reads another cluster's run": sisters("s3:GetObject", f"{BUCKET}/clusters/ml/run.json"),
    "reads a run of a cluster whose name begins alike": sisters(
        "s3:GetObject", f"{BUCKET}/clusters/etl-2/run.json"
    ),
    "reads a cluster's state": never("s3:GetObject", f"{BUCKET}/clusters/etl/terraform.tfstate"),
    "reads an older version of a state": never(
        "s3:GetObjectVersion", f"{BUCKET}/clusters/etl/terraform.tfstate"
    ),
    "reads the workspace's baseline": never("s3:GetObject", f"{BUCKET}/workspace.json"),
    "writes the workspace's baseline: other templates for all": never(
        "s3:PutObject", f"{BUCKET}/workspace.json"
    ),
    "writes what hosts install": never("s3:PutObject", f"{BUCKET}/clusters/etl/software.lock"),
    "writes what hosts run": never("s3:PutObject", f"{BUCKET}/clusters/etl/run.json"),
    "writes a descriptor": never("s3:PutObject", f"{BUCKET}/clusters/etl/cluster.json"),
    "writes a state": never("s3:PutObject", f"{BUCKET}/clusters/etl/terraform.tfstate"),
    "locks a state": never("s3:PutObject", f"{BUCKET}/clusters/etl/terraform.tfstate.tflock"),
    "replaces its report, and no other version of it": within(
        "s3:GetObject", f"{BUCKET}/clusters/etl/hosts/i-1.json"
    ),
    "reads reports of another cluster's hosts": sisters(
        "s3:GetObject", f"{BUCKET}/clusters/ml/hosts/i-1.json"
    ),
    "deletes an object": never("s3:DeleteObject", f"{BUCKET}/clusters/etl/hosts/i-1.json"),
    "reports on itself": within("s3:PutObject", f"{BUCKET}/clusters/etl/hosts/i-1.json"),
    "reports on another cluster's host": sisters(
        "s3:PutObject", f"{BUCKET}/clusters/ml/hosts/i-1.json"
    ),
    "says where its scheduler is": within(
        "s3:PutObject", f"{BUCKET}/clusters/etl/scheduler.json", SCHEDULER
    ),
    "says where another's scheduler is": sisters(
        "s3:PutObject", f"{BUCKET}/clusters/ml/scheduler.json", SCHEDULER
    ),
    "says that its cluster has ended": within(
        "s3:PutObject", f"{BUCKET}/clusters/etl/closing.json", SCHEDULER
    ),
    "says that another cluster has ended": sisters(
        "s3:PutObject", f"{BUCKET}/clusters/ml/closing.json", SCHEDULER
    ),
    "reads the environment that its cluster's scheduler has built": within(
        "s3:GetObject", f"{BUCKET}/environments/etl/run-i-1-0.tar"
    ),
    "reads an environment of another cluster": sisters(
        "s3:GetObject", f"{BUCKET}/environments/ml/run-i-1-0.tar"
    ),
    "shares an environment": within(
        "s3:PutObject", f"{BUCKET}/environments/etl/run-i-1-0.tar", SCHEDULER
    ),
    "removes the parts of an environment that it couldn't share": within(
        "s3:AbortMultipartUpload", f"{BUCKET}/environments/etl/run-i-1-0.tar", SCHEDULER
    ),
    "ends another cluster's upload": sisters(
        "s3:AbortMultipartUpload", f"{BUCKET}/environments/ml/run-i-1-0.tar", SCHEDULER
    ),
    "finds uploads": never("s3:ListBucketMultipartUploads", BUCKET),
    "replaces an environment of another cluster": sisters(
        "s3:PutObject", f"{BUCKET}/environments/ml/run-i-1-0.tar", SCHEDULER
    ),
    "keeps what its cluster's run did": within(
        "s3:PutObject", f"{BUCKET}/reports/etl/20261120T051500Z-1f3a9c/1.html.gz", SCHEDULER
    ),
    "changes what another cluster's run did": sisters(
        "s3:PutObject", f"{BUCKET}/reports/ml/20261120T051500Z-1f3a9c/1.html.gz", SCHEDULER
    ),
    "reads what its cluster's runs did": never(
        "s3:GetObject", f"{BUCKET}/reports/etl/20261120T051500Z-1f3a9c/1.html.gz"
    ),
    "says which environment its cluster's hosts run": within(
        "s3:PutObject", f"{BUCKET}/clusters/etl/environment.json", SCHEDULER
    ),
    "says which environment another's hosts run": sisters(
        "s3:PutObject", f"{BUCKET}/clusters/ml/environment.json", SCHEDULER
    ),
    "opens the bucket": never("s3:PutBucketPolicy", BUCKET),
    "puts objects into another workspace's bucket": never(
        "s3:PutObject",
        f"arn:aws:s3:::terradask-default-two-{ACCOUNT}-{REGION}/clusters/etl/hosts/i-1.json",
    ),
    "uses the data that the settings name": within("s3:PutObject", "arn:aws:s3:::lake/raw/part.0"),
    "uses other data of the same bucket": never("s3:GetObject", "arn:aws:s3:::lake/rawest/part.0"),
    "lists other data of the same bucket": never(
        "s3:ListBucket", "arn:aws:s3:::lake", {"s3:prefix": "secret/"}
    ),
    # Keys
    "reads its cluster's keys": within(
        "secretsmanager:GetSecretValue", f"{SECRET}default/etl-AbCdEf"
    ),
    "reads another cluster's keys": sisters(
        "secretsmanager:GetSecretValue", f"{SECRET}default/ml-AbCdEf"
    ),
    "reads keys of a cluster whose name begins alike": sisters(
        "secretsmanager:GetSecretValue", f"{SECRET}default/etl-2-AbCdEf"
    ),
    "reads keys of another workspace": never(
        "secretsmanager:GetSecretValue", f"{SECRET}default-two/etl-AbCdEf"
    ),
    "reads a secret of the account": never(
        "secretsmanager:GetSecretValue",
        f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:db-AbCdEf",
    ),
    "writes keys: an authority of its own": never(
        "secretsmanager:PutSecretValue", f"{SECRET}default/etl-AbCdEf"
    ),
    "lets others read keys": never(
        "secretsmanager:PutResourcePolicy", f"{SECRET}default/etl-AbCdEf"
    ),
    "lists secrets": never("secretsmanager:ListSecrets"),
    # Logs
    "writes its log": within("logs:PutLogEvents", f"{STREAMS}default:log-stream:etl/i-1"),
    "writes another cluster's log": sisters(
        "logs:PutLogEvents", f"{STREAMS}default:log-stream:ml/i-1"
    ),
    "writes a log of a cluster whose name begins alike": sisters(
        "logs:PutLogEvents", f"{STREAMS}default:log-stream:etl-2/i-1"
    ),
    "writes another workspace's log": never(
        "logs:PutLogEvents", f"{STREAMS}default-two:log-stream:etl/i-1"
    ),
    "writes the flow logs": never(
        "logs:PutLogEvents", f"{STREAMS}default/flow-logs:log-stream:eni-1"
    ),
    "reads logs": never("logs:GetLogEvents", f"{STREAMS}default:log-stream:etl/i-1"),
    "deletes its traces": never("logs:DeleteLogStream", f"{STREAMS}default:log-stream:etl/i-1"),
    # Groups
    "ends a host of its cluster": within(LEAVE, group("default-etl-workers"), context=OWN),
    "ends a host of another cluster": sisters(LEAVE, group("default-ml-workers"), context=SISTER),
    "ends a host of another workspace": never(LEAVE, group("default-two-etl-workers"), LONGER),
    "ends a host of a group that carries no tag": never(
        LEAVE, group("default-etl-workers"), FOREIGN
    ),
    "lets AWS go on with a launch of its cluster": within(
        JOIN, group("default-etl-workers"), context=OWN
    ),
    "lets AWS go on with another cluster's": sisters(
        JOIN, group("default-ml-workers"), context=SISTER
    ),
    "lets AWS go on with another workspace's": never(
        JOIN, group("default-two-etl-workers"), LONGER
    ),
    "changes the pool of prepared hosts": never(
        "autoscaling:PutWarmPool", group("default-etl-workers"), OWN
    ),
    "ends any instance": never(
        "ec2:TerminateInstances", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-1", OWN
    ),
    "changes its cluster's numbers": within(MOVE, group("default-etl-workers"), SCHEDULER, OWN),
    "changes another cluster's numbers": sisters(
        MOVE, group("default-ml-workers"), SCHEDULER, SISTER
    ),
    "changes another workspace's numbers": never(MOVE, group("default-two-etl-workers"), LONGER),
    "changes numbers of a group with another's tag": sisters(
        MOVE, group("default-etl-workers"), SCHEDULER, SISTER
    ),
    "postpones its watchdog schedule": within(
        AHEAD, group("default-etl-workers"), SCHEDULER, {**OWN, "autoscaling:MinSize": "0"}
    ),
    "schedules a minimum: no stop would succeed": never(
        AHEAD, group("default-etl-workers"), {**OWN, "autoscaling:MinSize": "1"}
    ),
    "schedules a larger maximum": never(
        AHEAD, group("default-etl-workers"), {**OWN, "autoscaling:MaxSize": "9"}
    ),
    # AWS evaluates no limits for it.
    "schedules several numbers in one call": never(
        "autoscaling:BatchPutScheduledUpdateGroupAction", group("default-etl-workers"), OWN
    ),
    "changes numbers of another cluster by schedule": sisters(
        AHEAD, group("default-ml-workers"), SCHEDULER, SISTER
    ),
    "deletes the watchdog schedule": never(
        "autoscaling:DeleteScheduledAction", group("default-etl-workers"), OWN
    ),
    "raises a group's maximum": never(
        "autoscaling:UpdateAutoScalingGroup", group("default-etl-workers"), OWN
    ),
    "looks at groups": within(LOOK, "*", SCHEDULER, HERE),
    "looks at another region's groups": never(LOOK, "*", ELSEWHERE),
    "reads why a group launches nothing": within(WHY, "*", SCHEDULER, HERE),
    "reads why another region's groups launch nothing": never(WHY, "*", ELSEWHERE),
    # What the settings list for tasks
    "reads data": within("s3:GetObject", "arn:aws:s3:::prices/2026/a.parquet"),
    "reads data beside the prefix": never("s3:GetObject", "arn:aws:s3:::prices/2025/a.parquet"),
    "writes data that it may read": never("s3:PutObject", "arn:aws:s3:::prices/2026/a.parquet"),
    "decrypts data": within("kms:Decrypt", KEY, context=THROUGH_S3),
    "decrypts elsewhere with the key of data": never("kms:Decrypt", KEY),
    "encrypts with the key of data that it may read": never("kms:GenerateDataKey", KEY, THROUGH_S3),
    "reads a table": within("dynamodb:GetItem", f"{TABLES}orders"),
    "writes a table": never("dynamodb:PutItem", f"{TABLES}orders"),
    "reads another table": never("dynamodb:GetItem", f"{TABLES}salaries"),
    # Wider by another tag
    "gives a group its tags": never(
        "autoscaling:CreateOrUpdateTags", group("default-two-etl-workers"), LONGER
    ),
    "takes a group's tags": never("autoscaling:DeleteTags", group("default-etl-workers"), OWN),
    "tags an instance as its own": never(
        "ec2:CreateTags",
        f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/i-9",
        {"aws:RequestTag/terradask:workspace": "default"},
    ),
    # Tags of volumes and interfaces, which decide whose costs they are
    "tags the volume that its machine was made with": within(
        TAG, VOLUME, context={**FRESH, **MINE}
    ),
    "tags its network interface": within(
        TAG, VOLUME.replace("volume", "network-interface"), context={**FRESH, **MINE}
    ),
    "tags a fresh volume as another cluster's": sisters(
        TAG, VOLUME, context={**FRESH, **asked("default", "ml")}
    ),
    "tags another cluster's fresh volume as its own": sisters(
        TAG, VOLUME, context={**SISTER, **MINE}
    ),
    "tags its own volume again, with another project": never(
        TAG, VOLUME, {**FRESH, **TAGGED, **MINE}
    ),
    "takes over another cluster's volume": never(TAG, VOLUME, {**SISTER, **TAGGED, **MINE}),
    "takes over another workspace's volume": never(TAG, VOLUME, {**LONGER, **MINE}),
    "takes over a volume of the account": never(TAG, VOLUME, {**FOREIGN, **MINE}),
    "moves a volume to another workspace": never(
        TAG, VOLUME, {**FRESH, **asked("default-two", "etl")}
    ),
    "takes the tag that a sweep goes by": never(
        TAG, VOLUME, {**FRESH, **MINE, "aws:RequestTag/terradask:workspace": ""}
    ),
    "hides a volume from a sweep by another name": never(
        TAG, VOLUME, {**FRESH, **MINE, "aws:RequestTag/Name": "database"}
    ),
    "tags a volume without saying whose it is": never(TAG, VOLUME, {**FRESH, **MINE_WITHOUT_GROUP}),
    "tags a volume as a host's that is no cluster's": never(
        TAG, VOLUME, {**FRESH, **MINE_WITHOUT_CLUSTER}
    ),
    "tags its own instance": never(TAG, f"{EC2}:instance/i-1", {**OWN, **MINE}),
    "tags a firewall as its own": never(TAG, f"{EC2}:security-group/sg-1", {**OWN, **MINE}),
    "takes its volume's tags": never("ec2:DeleteTags", VOLUME, OWN),
    "reads a volume by a snapshot": never("ec2:CreateSnapshot", VOLUME, OWN),
    # Wider by another role, or another machine
    "launches a machine": never(
        "ec2:RunInstances", f"arn:aws:ec2:{REGION}:{ACCOUNT}:instance/*", OWN
    ),
    "changes what the next host is": never(
        "ec2:CreateLaunchTemplateVersion",
        f"arn:aws:ec2:{REGION}:{ACCOUNT}:launch-template/lt-1",
        OWN,
    ),
    "opens a firewall": never(
        "ec2:AuthorizeSecurityGroupIngress",
        f"arn:aws:ec2:{REGION}:{ACCOUNT}:security-group/sg-1",
        OWN,
    ),
    "hands a role on": never(
        "iam:PassRole", f"arn:aws:iam::{ACCOUNT}:role/terradask-default-scheduler", TO_EC2
    ),
    "takes another role": never(
        "sts:AssumeRole", f"arn:aws:iam::{ACCOUNT}:role/terradask-default-scheduler"
    ),
    "writes its own rights": never(
        "iam:PutRolePolicy", f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"
    ),
    "loses its boundary": never(
        "iam:DeleteRolePermissionsBoundary", f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"
    ),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_host(act: str) -> None:
    one = ACTS[act]
    request = Request(
        one.action, one.resource, {key: (value,) for key, value in one.context.items()}
    )

    may = {
        isolation: {
            role
            for role, policy in ROLES.items()
            if evaluate(request, [Policy.parse(policy(scope))]).allowed
        }
        for isolation, scope in SCOPES.items()
    }

    assert may == {"shared": one.shared, "isolated": one.isolated}


def test_every_right_is_among_the_acts() -> None:
    held = [
        statement
        for scope in SCOPES.values()
        for policy in ROLES.values()
        for statement in Policy.parse(policy(scope)).statements
    ]
    allowed = {act.action for act in ACTS.values() if act.shared}
    # Without them no act is possible: making a stream writes nothing, and a missing object's name
    # is told from a forbidden one's.
    besides = {"logs:CreateLogStream", "s3:ListBucket", "s3:GetBucketLocation"}
    data = {"s3:AbortMultipartUpload", "s3:DeleteObject", "s3:ListMultipartUploadParts"}
    assert {
        action for statement in held for action in statement.actions
    } == allowed | besides | data
    assert not [statement for statement in held if statement.not_actions or statement.not_resources]
