"""Existing resources in moto's state; call with the state's lock held."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT, account_in
from terradask_simulator.aws.fidelity.buckets import FOREIGN
from terradask_simulator.aws.fidelity.group_zones import warmed
from terradask_simulator.aws.session_manager.sessions import owner_tags

__all__ = ["TemplateData", "World", "iam_backend", "ids_of_names", "table"]

#: The policy of a missing resource whose policy must allow.
_NOTHING = '{"Statement": []}'


def iam_backend(account: str = ACCOUNT) -> Any:
    """Return moto's IAM of an account."""
    from moto.iam.models import iam_backends

    return iam_backends[account]["aws"]


def ids_of_names(ec2: Any) -> dict[str, str]:
    """Return the ids of a region's EC2 resources that requests name otherwise."""
    found: dict[str, str] = ec2.__dict__.setdefault("embedded_ids_of_names", {})
    return found


def table(tags: Any) -> dict[str, str]:
    """Return tags as a table, from any of moto's forms."""
    if isinstance(tags, Mapping):
        return {
            str(key): str(value.get("Value", "") if isinstance(value, Mapping) else value)
            for key, value in tags.items()
        }
    return {str(tag["Key"]): str(tag.get("Value") or "") for tag in tags or []}


@dataclass(frozen=True)
class TemplateData:
    """A version of a launch template, with the API's field names."""

    template_id: str
    data: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class World:
    """Read-only view, from one region, of the existing resources that the mapping needs."""

    region: str
    account: str = ACCOUNT
    partition: str = "aws"

    @property
    def _ec2(self) -> Any:
        from moto.ec2.models import ec2_backends

        return ec2_backends[self.account][self.region]

    @property
    def _autoscaling(self) -> Any:
        from moto.autoscaling.models import autoscaling_backends

        return autoscaling_backends[self.account][self.region]

    def ec2_tags(self, resource_id: str) -> dict[str, str]:
        """Return the tags of an EC2 resource, by its id, or its name if requests have that."""
        tagged = ids_of_names(self._ec2).get(resource_id, resource_id)
        return dict(self._ec2.tags.get(tagged, {}))

    def vpc_of(self, resource_id: str) -> str:
        """Return the VPC of a subnet or security group, or an empty string."""
        if resource_id.startswith("subnet-"):
            return next(
                (
                    subnets[resource_id].vpc_id
                    for subnets in self._ec2.subnets.values()
                    if resource_id in subnets
                ),
                "",
            )
        if resource_id.startswith("sg-"):
            return next(
                (vpc or "" for vpc, groups in self._ec2.groups.items() if resource_id in groups), ""
            )
        return ""

    def related(self, resource_id: str) -> tuple[str, ...]:
        """Return the ids of the EC2 resources that an association or a security group's rule
        belongs to.
        """
        for route_table in self._ec2.route_tables.values():
            if resource_id in route_table._associations:
                return route_table.id, route_table._associations[resource_id]
        for address in self._ec2.addresses:
            if address.association_id == resource_id:
                # moto has no interface for a NAT gateway.
                return address.allocation_id, address.eni.id if address.eni else "eni-*"
        for groups in self._ec2.groups.values():
            for group in groups.values():
                if any(
                    rule.id == resource_id for rule in (*group.ingress_rules, *group.egress_rules)
                ):
                    return (group.id,)
        return ()

    def template(self, name_or_id: str, version: str) -> TemplateData | None:
        """Return a launch template's version, or None."""
        backend = self._ec2
        template = backend.launch_templates.get(
            backend.launch_template_name_to_ids.get(name_or_id, name_or_id)
        )
        if template is None:
            return None
        numbers = {"$latest": len(template.versions), "$default": template.default_version_number}
        number = numbers.get(version.lower()) or (int(version) if version.isdigit() else 0)
        found = next((one for one in template.versions if one.number == number), None)
        return TemplateData(template.id, found.data) if found is not None else None

    def template_id(self, name: str) -> str:
        """Return a launch template's id, or an empty string."""
        return str(self._ec2.launch_template_name_to_ids.get(name, ""))

    def group(self, name: str) -> tuple[str, dict[str, str]] | None:
        """Return an Auto Scaling group's ARN and tags, or None."""
        group = self._autoscaling.autoscaling_groups.get(name)
        return (group.arn, table(group.tags)) if group is not None else None

    def group_of_instance(self, instance_id: str) -> str:
        """Return the name of an instance's Auto Scaling group, or nothing."""
        groups = self._autoscaling.autoscaling_groups.values()
        return next(
            (
                group.name
                for group in groups
                if any(
                    state.instance.id == instance_id
                    for state in [*group.instance_states, *warmed(group)]
                )
            ),
            "",
        )

    def secret(self, name_or_arn: str) -> tuple[str, dict[str, str]] | None:
        """Return a secret's ARN and tags, or None."""
        secret = self._secret(name_or_arn)
        return (secret.arn, table(secret.tags)) if secret is not None else None

    def _secret(self, name_or_arn: str) -> Any:
        from moto.secretsmanager.models import secretsmanager_backends

        secrets = secretsmanager_backends[self.account][self.region].secrets
        # moto's table finds by name and ARN only with these two methods.
        if name_or_arn not in secrets:
            return None
        return secrets[name_or_arn]

    def identity(self, kind: str, name: str) -> tuple[str, dict[str, str]] | None:
        """Return the ARN and tags of IAM's ``role``, ``user``, ``group``, ``policy`` or
        ``instance-profile``, or None.
        """
        found = self._identity(kind, name)
        if found is None:
            return None
        tags = (
            iam_backend(self.account).list_user_tags(found.name)
            if kind == "user"
            else getattr(found, "tags", None)
        )
        return str(found.arn), table(tags)

    def _identity(self, kind: str, name: str) -> Any:
        iam = iam_backend(self.account)
        if kind == "policy":
            own = f"arn:{self.partition}:iam::{self.account}:policy/{name}"
            return iam.managed_policies.get(name) or iam.managed_policies.get(own)
        if kind == "oidc-provider":
            return iam.open_id_providers.get(name)
        kept: dict[str, Iterable[Any]] = {
            "group": iam.groups.values(),
            "instance-profile": iam.instance_profiles.values(),
            "role": iam.roles.values(),
            "user": iam.users.values(),
        }
        return next((one for one in kept.get(kind, ()) if one.name == name), None)

    def role_of_profile(self, name_or_arn: str) -> str:
        """Return the ARN of the role in an instance profile, or an empty string."""
        profile = self._identity("instance-profile", name_or_arn.rpartition("/")[2])
        return str(profile.roles[0].arn) if profile is not None and profile.roles else ""

    def boundary_of(self, kind: str, name: str) -> str:
        """Return the ARN of the permissions boundary of a ``role``, or an empty string; moto keeps
        none for users.
        """
        role = self._identity("role", name) if kind == "role" else None
        return str(getattr(role, "permissions_boundary_arn", None) or "")

    def resource_policy(self, action: str, resource: str) -> str | None:
        """Return a resource's own policy: a bucket's, a secret's, a key's, a role's trust policy;
        None without one.
        """
        service = action.partition(":")[0]
        if service == "s3":
            bucket = self._bucket(resource.rpartition(":")[2].partition("/")[0])
            return bucket.policy.decode() if bucket is not None and bucket.policy else None
        if service == "secretsmanager":
            secret = self._secret(resource)
            return secret.policy if secret is not None else None
        if service == "kms":
            key = self._key(resource)
            return key.policy if key is not None else None
        if action.startswith("sts:AssumeRole"):
            there = replace(self, account=account_in(resource))
            role = there._identity("role", resource.rpartition("/")[2])
            return role.assume_role_policy_document if role is not None else _NOTHING
        return None

    def key_of(self, resource: str, named: str, *, new: bool) -> str:
        """Return the ARN of the customer's KMS key that encrypts an object, a secret, a parameter
        or a topic, or an empty string.

        ``named`` is the key in the request, ``AES256`` for no key, empty if unset; `new`: the
        request creates the object.
        """
        held: Any = named
        if not held and ":secretsmanager:" in resource:
            held = getattr(self._secret(resource), "kms_key_id", "")
        elif not held and ":ssm:" in resource:
            held = self._key_of_parameter(resource)
        elif not held and ":sns:" in resource:
            held = getattr(self._topic(resource), "kms_master_key_id", "")
        elif not held:
            held = self._key_of_object(*resource.rpartition(":")[2].split("/", 1), new=new)
        key = self._key(str(held or ""))
        return str(key.arn) if key is not None and key.key_manager == "CUSTOMER" else ""

    def _key_of_parameter(self, arn: str) -> str:
        from moto.ssm.models import ssm_backends

        found = ssm_backends[self.account][self.region].get_parameter(arn)
        is_secure = found is not None and found.parameter_type == "SecureString"
        return str(found.keyid or "") if is_secure else ""

    def _key_of_object(self, bucket: str, key: str, *, new: bool) -> str:
        found = self._bucket(bucket)
        if found is None:
            return ""
        if not new:
            return getattr(found.keys.get(key), "kms_key_id", None) or ""
        rule = ((found.encryption or {}).get("Rule") or {}).get(
            "ApplyServerSideEncryptionByDefault"
        ) or {}
        return (
            str(rule.get("KMSMasterKeyID", ""))
            if rule.get("SSEAlgorithm", "").startswith("aws:kms")
            else ""
        )

    def _topic(self, arn: str) -> Any:
        from moto.sns.models import sns_backends

        return sns_backends[self.account][self.region].topics.get(arn)

    def _key(self, name: str) -> Any:
        from moto.kms.models import kms_backends

        backend = kms_backends[self.account][self.region]
        short = name.rpartition(":")[2]
        key_id = (
            backend.get_key_id_from_alias(short)
            if short.startswith("alias/")
            else short.removeprefix("key/")
        )
        return backend.keys.get(key_id)

    def session_tags(self, session_id: str) -> dict[str, str]:
        """Return the tags of a Session Manager session."""
        return owner_tags(session_id)

    def log_group_tags(self, name: str) -> dict[str, str]:
        """Return a log group's tags."""
        from moto.logs.models import logs_backends

        backend = logs_backends[self.account][self.region]
        return table(backend.list_tags_log_group(name)) if name in backend.groups else {}

    def account_of(self, resource: str) -> str | None:
        """Return the account of a bucket, or of an object's bucket, by an ARN; None for other ARNs
        and missing buckets.
        """
        if ":s3:::" not in resource:
            return None
        bucket = resource.rpartition(":")[2].partition("/")[0]
        found = self._bucket(bucket)
        return None if found is None else FOREIGN.get(bucket) or str(found.account_id)

    def has_object(self, bucket: str, key: str) -> bool:
        """Return whether an object exists."""
        from moto.s3.models import FakeDeleteMarker

        found = self._bucket(bucket)
        if found is None:
            # The bucket is missing: S3 reports that to every caller.
            return True
        held = found.keys.get(key)
        return held is not None and not isinstance(held, FakeDeleteMarker)

    def _bucket(self, name: str) -> Any:
        from moto.s3.models import s3_backends

        return s3_backends[self.account][self.partition].buckets.get(name)
