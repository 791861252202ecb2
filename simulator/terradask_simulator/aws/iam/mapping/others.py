"""Services that speak JSON: operations to permissions."""

from __future__ import annotations

import re
from collections.abc import Iterator

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.need import Need
from terradask_simulator.aws.iam.operation import Operation, Parameters, named, tags_of, texts
from terradask_simulator.aws.iam.world import World

__all__ = [
    "any_needs",
    "budgets_needs",
    "connect_needs",
    "logs_needs",
    "quota_needs",
    "secret_needs",
    "ssm_needs",
]

#: Operations on a log group's ARN without the suffix for its streams.
_TAGS_LOG_GROUPS = {"TagResource", "UntagResource", "ListTagsForResource"}
#: Actions that Service Quotas calls as the caller; the dependent actions of the reference.
_LIMITS = {"autoscaling": "autoscaling:DescribeAccountLimits", "iam": "iam:GetAccountSummary"}
_PLACEHOLDER = re.compile(r"\$\{([^}]*)\}")


def secret_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for a Secrets Manager operation."""
    action, parameters = f"secretsmanager:{operation.name}", operation.parameters
    name = named(parameters, "SecretId", "Name")
    if "Secret" not in reference.resource_types(action) or not name:
        yield Need(action)
        return
    arn, has = world.secret(name) or (_secret_arn(world, name), None)
    tags = tags_of(parameters)
    facts = {
        f"secretsmanager:{name}": (str(value).lower() if isinstance(value, bool) else str(value),)
        for name, value in parameters.items()
        if isinstance(value, str | int)
    }
    keys = tuple(texts(parameters, "TagKeys"))
    yield Need(
        action, arn, "Secret", has_tags=has, gets_tags=tags or None, gets_keys=keys, context=facts
    )
    if operation.name == "CreateSecret" and tags:
        yield Need("secretsmanager:TagResource", arn, "Secret", gets_tags=tags)


def connect_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an EC2 Instance Connect operation: on the instance, whose tags are
    also under EC2's prefix, with the user to log in as.
    """
    target = named(operation.parameters, "InstanceId")
    tags = world.ec2_tags(target)
    facts = {f"ec2:ResourceTag/{name}": (value,) for name, value in (tags or {}).items()}
    if user := operation.parameters.get("InstanceOSUser"):
        facts["ec2:osuser"] = (str(user),)
    yield Need(
        f"ec2-instance-connect:{operation.name}",
        f"arn:{world.partition}:ec2:{world.region}:{world.account}:instance/{target}",
        "instance",
        has_tags=tags,
        context=facts,
    )


def ssm_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for a Systems Manager operation."""
    action = f"ssm:{operation.name}"
    if operation.name == "StartSession":
        target, document = (
            named(operation.parameters, "Target"),
            named(operation.parameters, "DocumentName"),
        )
        named_document = {"ssm:SessionDocumentAccessCheck": ("true",)}
        instance = f"arn:{world.partition}:ec2:{world.region}:{world.account}:instance/{target}"
        yield Need(
            action, instance, "instance", has_tags=world.ec2_tags(target), context=named_document
        )
        # AWS's own documents belong to no account.
        account = "" if document.startswith("AWS-") else world.account
        name = document or "SSM-SessionManagerRunShell"
        arn = f"arn:{world.partition}:ssm:{world.region}:{account}:document/{name}"
        yield Need(action, arn, "document", context=named_document)
        return
    if "session" in reference.resource_types(action):
        session = named(operation.parameters, "SessionId")
        arn = f"arn:{world.partition}:ssm:{world.region}:{world.account}:session/{session}"
        yield Need(action, arn, "session", has_tags=world.session_tags(session))
        return
    names = texts(operation.parameters, "Names", "Name", "Path")
    if "parameter" not in reference.resource_types(action) or not names:
        yield from any_needs(operation, world)
        return
    for name in names:
        # AWS's own parameters belong to no account.
        account = "" if name.startswith("/aws/service/") else world.account
        arn = f"arn:{world.partition}:ssm:{world.region}:{account}:parameter/{name.lstrip('/')}"
        yield Need(action, name if name.startswith("arn:") else arn, "parameter")


def logs_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for a CloudWatch Logs operation.

    Notes
    -----
    AWS (documented): The ARN of a log group ends with ``:*`` in policies, except for tagging.
    https://docs.aws.amazon.com/AmazonCloudWatch/latest/logs/iam-access-control-overview-cwl.html
    """
    action, parameters = f"logs:{operation.name}", operation.parameters
    kinds = reference.resource_types(action)
    given = named(parameters, "logGroupName", "logGroupIdentifier", "resourceArn")
    if not kinds or not given:
        yield Need(
            action,
            f"arn:{world.partition}:logs:{world.region}:{world.account}:log-group::log-stream:"
            if kinds
            else "*",
        )
        return
    group = given.partition(":log-group:")[2].removesuffix(":*") or given
    arn = f"arn:{world.partition}:logs:{world.region}:{world.account}:log-group:{group}"
    stream = named(parameters, "logStreamName") if "log-stream" in kinds else ""
    ending = "" if operation.name in _TAGS_LOG_GROUPS else f":log-stream:{stream}"
    tags = parameters.get("tags") or {}
    kind = "log-stream" if stream else "log-group"
    has = world.log_group_tags(group)
    yield Need(
        action,
        arn + ending,
        kind,
        has_tags=has,
        gets_tags=tags or None,
        gets_keys=tuple(texts(parameters, "tagKeys")),
    )
    if operation.name == "CreateLogGroup" and tags:
        yield Need("logs:TagResource", arn, "log-group", gets_tags=tags)


def budgets_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an operation of AWS Budgets.

    Notes
    -----
    AWS (documented): Budgets know two rights, to see and to modify, for all calls but those for
    tags; creating one with tags also needs the right to tag.
    https://docs.aws.amazon.com/service-authorization/latest/reference/list_budgets.html
    """
    parameters = operation.parameters
    given = parameters.get("Budget") or parameters.get("NewBudget") or parameters
    name = named(given, "BudgetName") or "*"
    arn = f"arn:{world.partition}:budgets::{world.account}:budget/{name}"
    if "Tag" in operation.name:
        keys = tuple(texts(parameters, "ResourceTagKeys"))
        tagged, tags = named(parameters, "ResourceARN"), _resource_tags(parameters)
        action = f"budgets:{operation.name}"
        yield Need(action, tagged, "budget", gets_tags=tags, gets_keys=keys)
        return
    sees = operation.name.startswith("Describe")
    yield Need(f"budgets:{'ViewBudget' if sees else 'ModifyBudget'}", arn, "budget")
    tags = _resource_tags(parameters)
    if operation.name == "CreateBudget" and tags:
        yield Need("budgets:TagResource", arn, "budget", gets_tags=tags)


def _resource_tags(parameters: Parameters) -> dict[str, str] | None:
    tags = {one["Key"]: one["Value"] for one in parameters.get("ResourceTags") or ()}
    return tags or None


def quota_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for a Service Quotas operation."""
    yield from any_needs(operation, world)
    asked = _LIMITS.get(named(operation.parameters, "ServiceCode"))
    if operation.name == "GetServiceQuota" and asked:
        yield Need(asked)


def any_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an operation of a service without its own mapping, from parameter
    names.

    Notes
    -----
    AWS (documented): Creating a resource with tags also needs the permission to tag it, as for SNS.
    https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html
    """
    action, parameters = f"{operation.service}:{operation.name}", operation.parameters
    tags, tag = tags_of(parameters) or None, f"{operation.service}:TagResource"
    found = False
    for kind, required in reference.resource_types(action).items():
        arn, is_named = _named_arn(operation, kind, world)
        if is_named or required:
            found = True
            keys = tuple(texts(parameters, "TagKeys"))
            yield Need(action, arn, kind, gets_tags=tags, gets_keys=keys)
            if tags and operation.name.startswith("Create") and reference.is_known(tag):
                yield Need(tag, arn, kind, gets_tags=tags)
    if not found:
        yield Need(action)


def _named_arn(operation: Operation, kind: str, world: World) -> tuple[str, bool]:
    """Return the ARN of an operation's resource, and whether its parameters name it: by the ARN or
    by all of its parts.
    """
    parameters, camel = operation.parameters, kind[:1].upper() + kind[1:]
    template = reference.arn(world, operation.service, kind)
    placeholders = _PLACEHOLDER.findall(template)
    names = [
        named(parameters, one, one[:1].lower() + one[1:], one.removeprefix(camel))
        for one in placeholders
    ]
    for placeholder, name in zip(placeholders, names, strict=True):
        template = template.replace(f"${{{placeholder}}}", name or "*")
    given = [named(parameters, f"{camel}Arn", "ResourceArn"), *names]
    whole = next((name for name in given if name.startswith("arn:")), "")
    return whole or template, bool(whole) or all(names)


def _secret_arn(world: World, name: str) -> str:
    if name.startswith("arn:"):
        return name
    # AWS appends six random characters to a secret's name.
    return (
        f"arn:{world.partition}:secretsmanager:{world.region}:{world.account}:secret:{name}-??????"
    )
