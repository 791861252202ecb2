"""What the mapping needs to know of resources that exist; `moto_world` reads it from moto."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

__all__ = ["TemplateData", "World"]

Tags = Mapping[str, str]


@dataclass(frozen=True)
class TemplateData:
    """A version of a launch template.

    Parameters
    ----------
    template_id
        Its id.
    data
        What it says, with the names of the API.
    """

    template_id: str
    data: Mapping[str, Any] = field(default_factory=dict)


class World(Protocol):
    """Resources of one account and region; nothing is changed through it."""

    @property
    def partition(self) -> str:
        """The partition of ARNs."""
        ...

    @property
    def account(self) -> str:
        """The account's number."""
        ...

    @property
    def region(self) -> str:
        """The region."""
        ...

    def ec2_tags(self, resource_id: str) -> Tags:
        """Return the tags of one of EC2's resources."""
        ...

    def vpc_of(self, resource_id: str) -> str:
        """Return the VPC of a subnet or security group, or nothing."""
        ...

    def related(self, resource_id: str) -> tuple[str, ...]:
        """Return the ids of EC2's resources that an association or a security group's rule stands
        for.
        """
        ...

    def template(self, name_or_id: str, version: str) -> TemplateData | None:
        """Return a launch template's version, or None."""
        ...

    def template_id(self, name: str) -> str:
        """Return a launch template's id, or nothing."""
        ...

    def group(self, name: str) -> tuple[str, Tags] | None:
        """Return an Auto Scaling group's ARN and tags, or None."""
        ...

    def group_of_instance(self, instance_id: str) -> str:
        """Return the name of an instance's Auto Scaling group, or nothing."""
        ...

    def secret(self, name_or_arn: str) -> tuple[str, Tags] | None:
        """Return a secret's ARN and tags, or None."""
        ...

    def identity(self, kind: str, name: str) -> tuple[str, Tags] | None:
        """Return the ARN and tags of IAM's ``role``, ``user``, ``group``, ``policy`` or
        ``instance-profile``, or None.
        """
        ...

    def role_of_profile(self, name_or_arn: str) -> str:
        """Return the ARN of the role in an instance profile, or nothing."""
        ...

    def boundary_of(self, kind: str, name: str) -> str:
        """Return the ARN of the permissions boundary of a ``role`` or ``user``, or nothing."""
        ...

    def resource_policy(self, action: str, resource: str) -> str | None:
        """Return the policy that a resource has of its own: a bucket's, a secret's, a role's trust
        policy; None without one.
        """
        ...

    def key_of(self, resource: str, named: str, *, new: bool) -> str:
        """Return the ARN of the customer's KMS key that encrypts an object, a secret or a topic, or
        nothing.

        ``named`` is the key in the request, ``AES256`` for none, empty where it names nothing;
        `new`: the request makes the object.
        """
        ...

    def log_group_tags(self, name: str) -> Tags:
        """Return a log group's tags."""
        ...

    def session_tags(self, session_id: str) -> Tags:
        """Return the tags that AWS gave a session of Session Manager."""
        ...

    def has_object(self, bucket: str, key: str) -> bool:
        """Return whether an object exists."""
        ...
