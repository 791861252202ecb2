"""IAM and STS: operations to permissions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from terradask_simulator.aws.backend import account_in
from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping.need import Facts, Need, pass_role
from terradask_simulator.aws.iam.operation import Operation, Parameters, named, tags_of, texts
from terradask_simulator.aws.iam.world import World

__all__ = ["iam_needs", "sts_needs"]

_LINKED = {
    "autoscaling.amazonaws.com": "AWSServiceRoleForAutoScaling",
    "spot.amazonaws.com": "AWSServiceRoleForEC2Spot",
}
#: Operations that need no permission.
_FREE = {"GetCallerIdentity", "GetSessionToken"}


def iam_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an IAM operation."""
    action, parameters = f"iam:{operation.name}", operation.parameters
    if operation.name == "CreateServiceLinkedRole":
        yield _linked(action, parameters, world)
        return
    if operation.name == "SimulatePrincipalPolicy":
        yield Need(action, named(parameters, "PolicySourceArn"))
        return
    tags = tags_of(parameters)
    keys = tuple(texts(parameters, "TagKeys"))
    needs = [
        replace(
            _need(action, kind, name, parameters, world), gets_tags=tags or None, gets_keys=keys
        )
        for kind, required in reference.resource_types(action).items()
        for name in _names(kind, parameters, required=required)
    ]
    yield from needs or [Need(action)]
    # AWS (documented): IAM also needs the right to tag to make a resource with tags.
    # https://docs.aws.amazon.com/IAM/latest/UserGuide/id_tags.html
    tag = f"iam:{operation.name.replace('Create', 'Tag', 1)}"
    if tags and operation.name.startswith("Create") and needs and reference.is_known(tag):
        yield Need(tag, needs[0].resource, needs[0].kind, gets_tags=tags)
    if operation.name == "AddRoleToInstanceProfile":
        role = world.identity("role", named(parameters, "RoleName"))
        if role:
            yield pass_role(role[0], "ec2")


def sts_needs(operation: Operation, world: World) -> Iterator[Need]:
    """Yield the permissions for an STS operation."""
    if operation.name in _FREE:
        return
    action, parameters = f"sts:{operation.name}", operation.parameters
    role = named(parameters, "RoleArn")
    if not role:
        yield Need(action)
        return
    facts: Facts = {"sts:RoleSessionName": (named(parameters, "RoleSessionName"),)}
    if named(parameters, "ExternalId"):
        facts["sts:ExternalId"] = (named(parameters, "ExternalId"),)
    there = replace(world, account=account_in(role))
    found = there.identity("role", role.rpartition("/")[2])
    yield Need(action, role, "role", has_tags=found[1] if found else None, context=facts)


def _names(kind: str, parameters: Parameters, *, required: bool) -> list[str]:
    if kind == "policy" and parameters.get("PolicyArn"):
        return texts(parameters, "PolicyArn")
    if kind == "oidc-provider":
        found = texts(parameters, "OpenIDConnectProviderArn", "Url")
    else:
        found = texts(parameters, reference.named_by("iam", kind).removesuffix("WithPath"))
    return found or (["*"] if required else [])


def _need(action: str, kind: str, name: str, parameters: Parameters, world: World) -> Need:
    found = None if name == "*" else world.identity(kind, name)
    facts: Facts = {}
    if parameters.get("PolicyArn"):
        facts["iam:PolicyARN"] = (named(parameters, "PolicyArn"),)
    boundary = named(parameters, "PermissionsBoundary") or world.boundary_of(kind, name)
    if boundary:
        facts["iam:PermissionsBoundary"] = (boundary,)
    # With a path, names are below it.
    path = named(parameters, "Path").strip("/")
    arn = (
        name
        if name.startswith("arn:")
        else reference.arn(world, "iam", kind, f"{path}/{name}" if path else name)
    )
    return Need(
        action,
        found[0] if found else arn,
        kind,
        has_tags=found[1] if found else None,
        context=facts,
    )


def _linked(action: str, parameters: Parameters, world: World) -> Need:
    service = named(parameters, "AWSServiceName")
    name = f"aws-service-role/{service}/{_LINKED.get(service, '*')}"
    return Need(
        action,
        reference.arn(world, "iam", "role", name),
        "role",
        context={"iam:AWSServiceName": (service,)},
    )
