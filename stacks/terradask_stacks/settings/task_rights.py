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
from collections.abc import Iterable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_modules.task_rights import DataBucket, Raising, TaskRight, raising
from terradask_stacks.settings.base import Section, Texts
from terradask_stacks.validators.refusal import refuse, unique
from terradask_stacks.validators.resources import (
    check_bucket,
    check_bucket_path,
    check_key_arn,
    check_task_action,
    check_task_resource,
)


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
    """An entry of ``network.task_rights``: a statement that tasks' roles get."""

    reason: str = Field(
        pattern=r"^[^\s${}%][^\n${}%]{0,254}$",
        description="Purpose; the statement's Sid is made of its words.",
    )
    actions: Annotated[
        list[Annotated[str, AfterValidator(check_task_action)]], AfterValidator(unique)
    ] = Field(min_length=1, description="Actions, such as dynamodb:GetItem.")
    resources: Annotated[
        list[Annotated[str, AfterValidator(check_task_resource)]], AfterValidator(unique)
    ] = Field(min_length=1, description="ARNs of resources; * is a wildcard.")
    conditions: dict[str, dict[str, Texts]] = Field(
        default={},
        description="Conditions: operator, such as StringEquals, to keys with their values.",
    )

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
    def right(self) -> TaskRight:
        """It as a policy's part."""
        return TaskRight(
            reason=self.reason,
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
    )
    task_rights: list[TaskRightSettings] = Field(
        default=[],
        description="Further rights of tasks, as statements of their hosts' role. Refused: what "
        "lets a task raise itself, such as iam:*, a workspace's bucket or the secrets of clusters.",
    )

    @property
    def data(self) -> tuple[DataBucket, ...]:
        """Everything in S3 that tasks may use."""
        return tuple(one.right for one in self.data_buckets)

    @property
    def rights(self) -> tuple[TaskRight, ...]:
        """All further rights of tasks."""
        return tuple(one.right for one in self.task_rights)

    def check_rights(
        self, partition: str, *, buckets: Sequence[str], images: Sequence[str]
    ) -> None:
        """Refuse rights in another partition, and those by which a task could raise itself with the
        buckets of networks' states, or the repositories of its images.
        """
        for bucket in self.data_buckets:
            _refuse_foreign(f"network.data_buckets, {bucket.path},", bucket.kms_key_arn, partition)
            _refuse_raising(
                f"network.data_buckets has {bucket.path}, which",
                raising(["s3:GetObject"], [f"arn:aws:s3:::{bucket.path}/*"], buckets=buckets),
            )
        for one in self.task_rights:
            whose = f"the entry of network.task_rights {one.reason!r}"
            for resource in one.resources:
                _refuse_foreign(whose, resource, partition)
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
