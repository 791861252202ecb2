"""The network of the check, and the role that uses it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from terradask._aws.answers import unless
from terradask._cleanup.delete import delete_resource
from terradask._cleanup.resources import Resource
from terradask._common.polling import wait_until
from terradask._live_check.place import environment
from terradask._live_check.steps import Step, StepResult
from terradask._terraform.state.bucket import make_state_bucket
from terradask._workspace.caller_scope import caller_scope
from terradask.errors import AccessDenied, TerradaskError
from terradask_modules.caller_policies import caller_policies
from terradask_modules.iam import policy_document, statement
from terradask_modules.names import TAG_WORKSPACE, resource_name

if TYPE_CHECKING:
    from terradask._workspace.workspace import Workspace

Found = TypeVar("Found")

#: Rights take seconds to reach all of AWS:
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot.html#troubleshoot_general_eventual-consistency
_PROPAGATION_SECONDS, _PAUSE_SECONDS = 90.0, 2.0
#: Instead of the caller's own; the profile would name another identity.
_IDENTITY = ("AWS_PROFILE", "AWS_DEFAULT_PROFILE")


def network_steps(workspace: Workspace) -> list[Step]:
    """Return the steps that apply the network, and plan it again."""

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
    """Make the bucket of the network's state, whose name is the check's: plans make no such one."""
    settings = workspace.settings
    make_state_bucket(
        workspace.aws,
        str(settings.state.bucket),
        tags=settings.workspace.tags,
        kms_key_arn=settings.state.kms_key_arn,
        own_name=False,
        warn=lambda text: None,
    )


@dataclass
class UserRole:
    """A throw-away role with the generated ``user`` policies, which the cluster's steps act as.

    Makes a role and its managed policies. Permissions needed, for the caller: ``iam:CreateRole``,
    ``TagRole``, ``CreatePolicy``, ``TagPolicy``, ``AttachRolePolicy``, and those to remove them;
    ``sts:AssumeRole``.
    """

    workspace: Workspace
    _variables: dict[str, str | None] = field(default_factory=dict, repr=False)

    def step(self) -> Step:
        """Return the step."""
        return Step("role", "a role with the policies of `terradask iam user` is used", self._use)

    def acting(self, run: Callable[[StepResult], Found]) -> Callable[[StepResult], Found]:
        """Return a step's function that acts as the role."""

        def as_role(result: StepResult) -> Found:
            with environment(self._variables):
                return run(result)

        return as_role

    @property
    def name(self) -> str:
        """The role's name."""
        prefix = self.workspace.settings.network.role_name_prefix
        return f"{prefix}{resource_name(self.workspace.settings.workspace.name, 'check')}"

    def _use(self, result: StepResult) -> None:
        self._make(result)
        sts = self.workspace.aws.client("sts")
        arn = f"{self._arn_of('role')}{self.name}"

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
        tags = [
            {"Key": key, "Value": value}
            for key, value in {
                **workspace.settings.workspace.tags,
                TAG_WORKSPACE: workspace.settings.workspace.name,
            }.items()
        ]
        root = f"arn:{workspace.aws.partition}:iam::{workspace.account_id}:root"
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
        """Remove the role and its policies, as far as they are there."""
        iam = self.workspace.aws.client("iam")
        delete_resource(self.workspace.aws, Resource("aws_iam_role", self.name))
        scope = caller_scope(self.workspace.settings, self.workspace.aws)
        for name in caller_policies(scope, "user"):
            with unless("NoSuchEntity"):
                iam.delete_policy(PolicyArn=f"{self._arn_of('policy')}{name}")

    def _arn_of(self, kind: str) -> str:
        aws = self.workspace.aws
        path = self.workspace.settings.network.role_path if kind == "role" else "/"
        return f"arn:{aws.partition}:iam::{aws.account_id}:{kind}{path}"


def _once_allowed(call: Callable[[], Found]) -> Found:
    """Return what a call returns, once AWS allows it. Raises `AccessDenied`."""
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
