"""The network of the check, the role that uses it, and their removal."""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from terradask._aws.answers import unless
from terradask._aws.listing import listed
from terradask._aws.tags import tag_filters, tags_of
from terradask._cleanup.delete import delete_resource
from terradask._cleanup.resources import Resource
from terradask._cleanup.search import (
    describe_secret,
    find_bucket,
    find_everything_in_ec2,
    find_groups,
    find_log_group,
    find_secrets,
)
from terradask._common.polling import wait_until
from terradask._doctor.account_check.place import (
    CLUSTER,
    NAME,
    UNTIL_TAG,
    CheckWorkspace,
    environment,
    role_name,
)
from terradask._doctor.account_check.rights import IAM_LISTS
from terradask._doctor.account_check.steps import Step, StepResult
from terradask._observe.instances import find_instances
from terradask._terraform.state.bucket import make_state_bucket
from terradask._workspace.caller_scope import caller_scope
from terradask.errors import AccessDenied, BaselineError, ClusterNotFound, InUse, TerradaskError
from terradask_modules.caller_policies import caller_policies
from terradask_modules.iam import policy_document, statement
from terradask_modules.kinds import KINDS
from terradask_modules.names import TAG_WORKSPACE, log_group_name, resource_name
from terradask_modules.where import Where

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._workspace.workspace import Workspace


Found = TypeVar("Found")

#: AWS (documented, iam-eventual): A change in IAM takes a while to reach all of AWS.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
_PROPAGATION_SECONDS, _PAUSE_SECONDS = 90.0, 2.0
#: Variables in place of the caller's; a profile would name another identity.
_IDENTITY = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")


def network_steps(workspace: Workspace) -> list[Step]:
    """Return the steps that apply and replan the network."""

    def apply(result: StepResult) -> None:
        make_bucket_of_state(workspace)
        plan = workspace.plan_network()
        result.facts["resources"] = len(plan.creates)
        workspace.apply(plan)

    def plan_again(_result: StepResult) -> None:
        plan = workspace.plan_network()
        if plan.changed:
            changes = [f"{one.action} {one.address}" for one in plan.summary.changes]
            raise TerradaskError(
                "a second plan of the network would change it again",
                given="; ".join(changes),
                allowed="no change",
                advice="send the report: terradask and AWS disagree about these attributes",
            )

    return [
        Step("network", "a network without a NAT gateway is applied", apply),
        Step("no-changes", "a second plan finds nothing to change", plan_again),
    ]


def make_bucket_of_state(workspace: Workspace) -> None:
    """Create the bucket of the network's state under the check's name, which plans don't create."""
    settings, aws = workspace.settings, workspace.aws
    make_state_bucket(
        aws,
        settings.state.bucket_for(aws.account_id, aws.region),
        tags=settings.workspace.tags,
        kms_key_arn=settings.state.kms_key_arn,
        own_name=settings.state.bucket is None,
        warn=lambda text: None,
    )


@dataclass
class UserRole:
    """A temporary role with the generated ``user`` policies, for the cluster's steps.

    Creates a role and its managed policies. Permissions needed, for the caller: ``iam:CreateRole``,
    ``sts:AssumeRole``.
    """

    workspace: Workspace
    _variables: dict[str, str | None] = field(default_factory=dict, repr=False)

    def step(self) -> Step:
        """Return the step."""
        return Step("role", "a role with the policies of `terradask iam user` is used", self._use)

    def acting(self, run: Callable[[StepResult], Found]) -> Callable[[StepResult], Found]:
        """Wrap a step's function to act as the role."""

        def as_role(result: StepResult) -> Found:
            with environment(self._variables):
                return run(result)

        return as_role

    @property
    def name(self) -> str:
        """The role's name."""
        settings = self.workspace.settings
        return role_name(settings.network.role_name_prefix, settings.workspace.name)

    def _use(self, result: StepResult) -> None:
        self._make(result)
        sts = self.workspace.aws.client("sts")
        arn = self._where.iam_arn(f"role{self.workspace.settings.network.role_path}{self.name}")

        def assume() -> Mapping[str, str]:
            answer = sts.assume_role(RoleArn=arn, RoleSessionName="terradask-live-check")
            found: Mapping[str, str] = answer["Credentials"]
            return found

        credentials = _once_allowed(assume)
        self._variables = {
            **dict.fromkeys(_IDENTITY),
            "AWS_ACCESS_KEY_ID": credentials["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": credentials["SecretAccessKey"],
            "AWS_SESSION_TOKEN": credentials["SessionToken"],
        }
        with environment(self._variables):
            from terradask._aws.session import Aws

            user = Aws(self.workspace.region)
            _once_allowed(lambda: user.client("autoscaling").describe_auto_scaling_groups())

    def _make(self, result: StepResult) -> None:
        workspace, iam = self.workspace, self.workspace.aws.client("iam")
        network = workspace.settings.network
        own = {TAG_WORKSPACE: workspace.settings.workspace.name}
        every = {**workspace.settings.workspace.tags, **own}
        tags = [{"Key": key, "Value": value} for key, value in every.items()]
        root = self._where.iam_arn("root")
        trust = statement("Allow", "sts:AssumeRole", principal={"AWS": root})
        boundary = network.permissions_boundary
        iam.create_role(
            RoleName=self.name,
            Path=network.role_path,
            AssumeRolePolicyDocument=json.dumps(policy_document([trust])),
            Tags=tags,
            **({} if boundary is None else {"PermissionsBoundary": boundary}),
        )
        policies = caller_policies(caller_scope(workspace.settings, workspace.aws), "user")
        result.facts["policies"] = len(policies)
        for name, document in policies.items():
            made = iam.create_policy(
                PolicyName=name, PolicyDocument=json.dumps(document), Tags=tags
            )
            iam.attach_role_policy(RoleName=self.name, PolicyArn=made["Policy"]["Arn"])

    def remove(self) -> None:
        """Remove the role and its policies, if they exist."""
        iam = self.workspace.aws.client("iam")
        delete_resource(self.workspace.aws, Resource("aws_iam_role", self.name))
        scope = caller_scope(self.workspace.settings, self.workspace.aws)
        for name in caller_policies(scope, "user"):
            with unless("NoSuchEntity"):
                iam.delete_policy(PolicyArn=self._where.iam_arn(f"policy/{name}"))

    @property
    def _where(self) -> Where:
        return _where_of(self.workspace)


def _once_allowed(call: Callable[[], Found]) -> Found:
    """Return a call's result once AWS allows it. Raises `AccessDenied`."""
    found: list[Any] = []
    refusals: list[AccessDenied] = []

    def is_allowed() -> bool:
        try:
            found.append(call())
        except AccessDenied as error:
            refusals.append(error)
            return False
        return True

    if not wait_until(is_allowed, limit_seconds=_PROPAGATION_SECONDS, pause_seconds=_PAUSE_SECONDS):
        raise refusals[-1]
    allowed: Found = found[0]
    return allowed


# ---- removal, and the check for leftovers --------------------------------------------------------


def removal_steps(place: CheckWorkspace, workspace: Workspace) -> list[Step]:
    """Return the steps that remove a temporary workspace, as the caller instead of the check's
    role. Each one may find nothing.
    """

    def nothing_left(_result: StepResult) -> None:
        left = leftovers(workspace)
        if left:
            raise TerradaskError(
                "resources of the check are left in the account",
                given=", ".join(left),
                allowed="nothing with its tag or name",
                advice="run terradask doctor --live again: it removes them first",
            )
        s3, name = workspace.aws.client("s3"), str(workspace.settings.state.bucket)
        for bucket in find_bucket(s3, name, workspace.account_id):
            delete_resource(workspace.aws, bucket)
        place.forget()

    return [
        Step("remove-cluster", "no cluster is left", lambda _: remove_cluster(workspace, CLUSTER)),
        Step("remove-role", "the role is removed", lambda _: UserRole(workspace).remove()),
        Step("remove-network", "the network is destroyed", lambda _: remove_network(workspace)),
        Step("nothing-left", "by tag and name, nothing is left", nothing_left),
    ]


def remove_cluster(workspace: Workspace, name: str) -> None:
    """Destroy a cluster, if there is one."""
    with suppress(ClusterNotFound, BaselineError):
        workspace.destroy_cluster(name)


def remove_network(workspace: Workspace) -> None:
    """Destroy the network, if there is one."""
    # A check on another machine may not have come so far.
    make_bucket_of_state(workspace)
    with suppress(BaselineError, InUse):
        workspace.destroy_network()


def leftovers(workspace: Workspace) -> list[str]:
    """Return a workspace's leftovers, found by its tag and by its names.

    Permissions needed: ``ec2:Describe*``, ``autoscaling:DescribeAutoScalingGroups``,
    ``secretsmanager:ListSecrets``, ``logs:DescribeLogGroups``, ``logs:ListTagsForResource``,
    ``s3:ListBucket``, ``iam:ListRoles``, ``iam:ListPolicies``, ``iam:ListInstanceProfiles``.
    """
    aws, name = workspace.aws, workspace.settings.workspace.name
    where = _where_of(workspace)
    written = [kind.writer.log_group(name) for kind in KINDS.values() if kind.writer is not None]
    found = [
        *find_everything_in_ec2(aws.client("ec2"), where),
        *find_groups(aws.client("autoscaling"), Filters=tag_filters(where.tags)),
        *find_bucket(aws.client("s3"), workspace.bucket, aws.account_id),
        *(
            one
            for group in (log_group_name(name), *written)
            for one in find_log_group(aws.client("logs"), group)
        ),
    ]
    left = [f"{one.type} {one.id}" for one in found]
    left += [f"instance {one.id}" for one in find_instances(aws, workspace=name)]
    for secret in find_secrets(aws.client("secretsmanager"), where):
        # AWS (documented): Secrets Manager ListSecrets may lack the changes of five minutes.
        # https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_ListSecrets.html
        if describe_secret(aws.client("secretsmanager"), secret.id) is not None:
            left.append(f"secret {secret.id}")
    begins = f"{workspace.settings.network.role_name_prefix}{resource_name(name, '')}"
    for method, (kind, listing, key, request) in IAM_LISTS.items():
        left += [
            f"{kind} {one[key]}"
            for one in listed(aws.client("iam"), method, listing, **request)
            if one[key].startswith((begins, resource_name(name, "")))
        ]
    return sorted(left)


def _where_of(workspace: Workspace) -> Where:
    aws = workspace.aws
    return workspace.settings.workspace.where(aws.account_id, aws.partition)


def unfinished_by_tag(aws: Aws, base: Path) -> Iterator[CheckWorkspace]:
    """Yield workspaces of finished checks without a record on this machine.

    Permission needed: ``ec2:DescribeVpcs``.
    """
    now = datetime.datetime.now(datetime.UTC)
    filters = tag_filters({TAG_WORKSPACE: "smoke-*"})
    for vpc in listed(aws.client("ec2"), "describe_vpcs", "Vpcs", Filters=filters):
        tags = tags_of(vpc.get("Tags"))
        name, until = tags[TAG_WORKSPACE], tags.get(UNTIL_TAG, "")
        known = NAME.fullmatch(name) is None or (base / name).exists()
        with suppress(ValueError):
            if not known and datetime.datetime.fromisoformat(until) < now:
                yield CheckWorkspace.begin(
                    base,
                    account=aws.account_id,
                    region=aws.region,
                    limit=datetime.timedelta(),
                    name=name,
                )
