"""The part of ``[network]`` with tasks' rights outside the workspace.

A missing right's error prints the entry to add, in this form (`entry_for`; the host program can't
import it and has its own)::

    [[network.task_rights]]
    reason = "orders database"
    actions = ["secretsmanager:GetSecretValue"]
    resources = ["arn:aws:secretsmanager:us-east-1:123456789012:secret:orders-AbCdEf"]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_modules.iam import Statement
from terradask_modules.task_limits import Raising, raising
from terradask_modules.task_rights import (
    DataBucket,
    TaskPolicy,
    TaskRight,
    clusters_of,
    of_cluster,
    shared,
)
from terradask_stacks.settings.base import ClusterNames, Section, Texts
from terradask_stacks.validators.refusal import refuse, unique
from terradask_stacks.validators.resources import (
    check_bucket,
    check_bucket_path,
    check_key_arn,
    check_policy_arn,
    check_task_action,
    check_task_resource,
)

#: AWS (documented): IAM attaches up to 10 managed policies to a role, by its default quota.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
MAX_ROLE_POLICIES = 10


class DataBucketSettings(Section):
    """A bucket of ``network.data_buckets``: what tasks may read, or read and write."""

    name: Annotated[str, AfterValidator(check_bucket)] = Field(description="The bucket's name.")
    prefix: str = Field(
        default="", description="Beginning of the keys, a folder such as 2026/raw. Empty: all."
    )
    access: Literal["read", "write"] = Field(
        default="read", description="write: tasks also put and delete objects."
    )
    kms_key_arn: Annotated[str, AfterValidator(check_key_arn)] | None = Field(
        default=None,
        description="KMS key that encrypts the objects; tasks use it only through S3.",
    )

    @model_validator(mode="after")
    def _is_data(self) -> DataBucketSettings:
        check_bucket_path(self.path)
        _refuse_raising(
            f"network.data_buckets has {self.path}, which",
            raising(["s3:GetObject"], [f"arn:aws:s3:::{self.path}/*"]),
        )
        return self

    @property
    def path(self) -> str:
        """``bucket`` or ``bucket/prefix``."""
        return "/".join(filter(None, (self.name, self.prefix.strip("/"))))

    @property
    def right(self) -> DataBucket:
        """It as a policy's part."""
        return DataBucket(path=self.path, access=self.access, kms_key_arn=self.kms_key_arn)


def _read_bucket(value: Any) -> Any:
    """Return the table of ``bucket/prefix``, which tasks may write."""
    if not isinstance(value, str):
        return value
    name, _, prefix = check_bucket_path(value).partition("/")
    return {"name": name, "prefix": prefix, "access": "write"}


def _once(buckets: list[DataBucketSettings]) -> list[DataBucketSettings]:
    unique([one.path for one in buckets])
    return buckets


class TaskRightSettings(Section):
    """An entry of ``network.task_rights``: a statement that tasks' roles get, or a managed policy
    that is attached to them.
    """

    reason: str = Field(
        pattern=r"^[^\s${}%][^\n${}%]{0,254}$",
        description="Purpose; the statement's Sid is made of its words.",
    )
    actions: Annotated[
        list[Annotated[str, AfterValidator(check_task_action)]], AfterValidator(unique)
    ] = Field(default=[], description="Actions, such as dynamodb:GetItem.")
    resources: Annotated[
        list[Annotated[str, AfterValidator(check_task_resource)]], AfterValidator(unique)
    ] = Field(default=[], description="ARNs of resources; * is a wildcard.")
    conditions: dict[str, dict[str, Texts]] = Field(
        default={},
        description="Conditions: operator, such as StringEquals, to keys with their values.",
    )
    policy_arn: Annotated[str, AfterValidator(check_policy_arn)] | None = Field(
        default=None,
        description="Instead of a statement: a managed policy of your account or of AWS's.",
    )
    clusters: ClusterNames | None = Field(
        default=None,
        min_length=1,
        description="Names of clusters whose tasks alone have it, with workspace.isolation = "
        "'cluster'. Unset: all.",
    )

    @model_validator(mode="after")
    def _is_one_of_both(self) -> TaskRightSettings:
        statement = bool(self.actions and self.resources)
        if statement == (self.policy_arn is not None) or (
            self.policy_arn is not None and (self.actions or self.resources or self.conditions)
        ):
            raise refuse(
                f"the entry of network.task_rights {self.reason!r} is neither a statement nor a "
                "managed policy",
                allowed="actions and resources, with or without conditions; or policy_arn alone",
            )
        return self

    @model_validator(mode="after")
    def _raises_nothing(self) -> TaskRightSettings:
        if not any(letter.isascii() and letter.isalnum() for letter in self.reason):
            raise refuse(f"{self.reason!r} has no letters", allowed="a reason in words")
        if any("${" in text or "%{" in text for text in _texts(self.conditions)):
            raise refuse(
                f"the conditions of {self.reason!r} have a ${{…}}",
                allowed="values without variables",
            )
        _refuse_raising(
            f"the entry of network.task_rights {self.reason!r}",
            raising(self.actions, self.resources),
        )
        return self

    @property
    def _named(self) -> tuple[str, ...] | None:
        return None if self.clusters is None else tuple(self.clusters)

    def policy(self, arn: str, statements: Sequence[Statement]) -> TaskPolicy:
        """Return it as a managed policy, with what its document allows."""
        return TaskPolicy(arn=arn, statements=tuple(statements), clusters=self._named)

    @property
    def right(self) -> TaskRight:
        """It as a policy's statement."""
        return TaskRight(
            reason=self.reason,
            clusters=self._named,
            actions=tuple(self.actions),
            resources=tuple(self.resources),
            conditions={
                operator: {key: value[0] if len(value) == 1 else value for key, value in it.items()}
                for operator, it in self.conditions.items()
            },
        )


def _texts(conditions: dict[str, dict[str, list[str]]]) -> list[str]:
    keys = {key: values for it in conditions.values() for key, values in it.items()}
    return [*conditions, *keys, *(value for values in keys.values() for value in values)]


def _refuse_raising(whose: str, found: Iterable[Raising]) -> None:
    for action, resource, why in found:
        raise refuse(
            f"{whose} allows {action} on {resource}, by which a task could raise itself: {why}",
            allowed="what tasks need outside the workspace: no action on roles, on machines, on a "
            "workspace's bucket, groups or secrets, nor a wildcard that matches one",
            advice="name the actions and the ARNs that your tasks use",
        )


def _refuse_foreign(whose: str, arn: str | None, partition: str) -> None:
    if arn not in (None, "*") and not str(arn).startswith(f"arn:{partition}:"):
        raise refuse(
            f"{whose} names {arn}, in another partition than workspace.region",
            allowed=f"ARNs that begin with arn:{partition}:",
        )


class TaskSettings(Section):
    """A network's settings for what tasks may do outside the workspace.

    Every reader takes `data` and `rights`: what other settings imply, such as mounts, is added
    there.
    """

    data_buckets: Annotated[
        list[Annotated[DataBucketSettings, BeforeValidator(_read_bucket)]], AfterValidator(_once)
    ] = Field(
        default=[],
        description="Buckets that tasks may use, with their hosts' role: bucket or bucket/prefix, "
        "which they may read and write, or tables.",
        examples=[["my-bucket", {"name": "lake", "prefix": "raw", "access": "read"}]],
    )
    task_rights: list[TaskRightSettings] = Field(
        default=[],
        description="Further rights of tasks, as statements of their hosts' role. Refused: what "
        "lets a task raise itself, such as iam:*, a workspace's bucket or the secrets of clusters.",
        examples=[
            [
                {
                    "reason": "prices table",
                    "actions": ["dynamodb:GetItem"],
                    "resources": ["arn:aws:dynamodb:us-east-1:123456789012:table/prices"],
                }
            ]
        ],
    )

    @property
    def data(self) -> tuple[DataBucket, ...]:
        """Everything in S3 that tasks may use."""
        return tuple(one.right for one in self.data_buckets)

    @property
    def rights(self) -> tuple[TaskRight, ...]:
        """All further rights of tasks that are statements."""
        return tuple(one.right for one in self.task_rights if one.policy_arn is None)

    def policies(
        self, documents: Mapping[str, Sequence[Statement]] | None = None
    ) -> tuple[TaskPolicy, ...]:
        """Return the managed policies of tasks, with the allowing statements that were read of
        each, by ARN.
        """
        return tuple(
            one.policy(one.policy_arn, (documents or {}).get(one.policy_arn, ()))
            for one in self.task_rights
            if one.policy_arn is not None
        )

    def policies_of(self, cluster: str) -> list[str]:
        """Return the ARNs of the managed policies of one cluster's tasks."""
        policies = self.policies()
        return [one.arn for one in (*shared(policies), *of_cluster(policies, cluster))]

    @model_validator(mode="after")
    def _policies_fit(self) -> TaskSettings:
        for cluster in ["", *clusters_of(self.policies())]:
            arns = unique(self.policies_of(cluster))
            if len(arns) > MAX_ROLE_POLICIES:
                raise refuse(
                    f"network.task_rights attaches {len(arns)} managed policies to "
                    + (f"the roles of cluster {cluster}" if cluster else "each role"),
                    allowed=f"{MAX_ROLE_POLICIES}, AWS's quota for a role",
                    advice="write what tasks need of them as statements (actions and resources)",
                )
        return self

    def check_rights(
        self, partition: str, *, isolated: bool, buckets: Sequence[str], images: Sequence[str]
    ) -> None:
        """Refuse rights in another partition, of single clusters that share roles, and those by
        which a task could raise itself with the buckets of networks' states, or the repositories of
        its images.
        """
        for bucket in self.data:
            _refuse_foreign(f"network, data in {bucket.path},", bucket.kms_key_arn, partition)
            _refuse_raising(
                f"network.data_buckets or network.mounts has {bucket.path}, which",
                raising(["s3:GetObject"], [f"arn:aws:s3:::{bucket.path}/*"], buckets=buckets),
            )
        for one in self.task_rights:
            whose = f"the entry of network.task_rights {one.reason!r}"
            for arn in (*one.resources, one.policy_arn):
                _refuse_foreign(whose, arn, partition)
            if one.clusters is not None and not isolated:
                raise refuse(
                    f"{whose} is for {', '.join(one.clusters)} alone, and clusters share the "
                    "network's roles",
                    allowed='clusters with workspace.isolation = "cluster"',
                    advice="leave clusters out, or isolate clusters",
                )
            _refuse_raising(
                whose,
                raising(one.actions, one.resources, buckets=buckets, repositories=images),
            )


def entry_for(reason: str, actions: Sequence[str], resources: Sequence[str]) -> str:
    """Return the lines of ``terradask.toml`` that give tasks a right."""
    return "\n".join(
        [
            "[[network.task_rights]]",
            f"reason = {json.dumps(reason)}",
            f"actions = {json.dumps(list(actions))}",
            f"resources = {json.dumps(list(resources))}",
        ]
    )
