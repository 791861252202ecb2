"""From a plan to what has to be priced, resource by resource. Pure.

A type of resource that isn't listed here is never taken for free: it shows as a thing without a
price.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from terradask._pricing.groups import HostLaunch, TemplateVersion, group_components, template_of
from terradask._pricing.launches import planned_launch
from terradask._pricing.plan_resources import PlannedResource, PlannedStack
from terradask._pricing.prices import Component, PriceKey, Product
from terradask_host.gauges import GAUGES

#: What AWS doesn't charge for (https://aws.amazon.com/vpc/pricing,
#: https://aws.amazon.com/autoscaling/pricing, https://aws.amazon.com/iam), and what it charges with
#: the bucket or the secret that it belongs to.
_FREE = frozenset(
    {
        "aws_vpc",
        "aws_subnet",
        "aws_route",
        "aws_route_table",
        "aws_route_table_association",
        "aws_internet_gateway",
        "aws_egress_only_internet_gateway",
        "aws_vpc_dhcp_options",
        "aws_network_acl",
        "aws_default_network_acl",
        "aws_default_route_table",
        "aws_eip_association",
        "aws_launch_template",
        "aws_autoscaling_schedule",
        "aws_autoscaling_lifecycle_hook",
        "aws_secretsmanager_secret_policy",
        "aws_cloudwatch_log_resource_policy",
        "aws_placement_group",
        "aws_sns_topic_subscription",
        "aws_s3_object",
        "aws_secretsmanager_secret_version",
        "terraform_data",
    }
)
_FREE_PREFIXES = (
    "aws_iam_",
    "aws_security_group",
    "aws_default_security_group",
    "aws_vpc_security_group_",
    "aws_vpc_endpoint_",
    "aws_s3_bucket_",
    "aws_vpc_ipv4_cidr_block_association",
    "aws_vpc_ipv6_cidr_block_association",
)

#: What AWS charges for by its use alone.
_BY_USE = {
    "aws_s3_bucket": ("S3 storage", "by the GB and request"),
    "aws_cloudwatch_log_group": ("logs", "by the GB taken in and kept"),
    "aws_flow_log": ("flow logs", "by the GB"),
    "aws_sns_topic": ("messages of ends", "by the message and mail"),
}

#: Of which each resource is one: what it is, and what isn't in its price.
_ONE_EACH: Mapping[str, tuple[str, Product, str | None]] = {
    "aws_nat_gateway": ("NAT gateway", "nat-gateway", "and each GB that goes through it"),
    "aws_eip": ("public IPv4 address", "public-ipv4", None),
    "aws_secretsmanager_secret": ("secret", "secret", "and each call"),
}


def components(
    stack: PlannedStack, region: str, hosts: Mapping[TemplateVersion, HostLaunch] | None = None
) -> list[Component]:
    """Return everything in a stack that costs, or whose price isn't known."""
    found: list[Component] = []
    for resource in sorted(stack.resources, key=lambda resource: resource.address):
        if resource.type == "aws_autoscaling_group":
            template = template_of(resource)
            launch = planned_launch(resource, stack) or (
                (hosts or {}).get(template) if template is not None else None
            )
            found.extend(group_components(resource, stack, region, launch))
        else:
            found.extend(_of(resource, region))
            if resource is stack.descriptor_resource:
                found.extend(_metrics(resource, stack, region))
    return found


def _metrics(resource: PlannedResource, stack: PlannedStack, region: str) -> Iterator[Component]:
    """Yield what metrics cost that a running cluster's host writes, of which Terraform makes
    none.
    """
    if (stack.descriptor.get("scheduler") or {}).get("metrics") != "cloudwatch":
        return
    yield Component(
        address=resource.address,
        what="custom metric of CloudWatch",
        keys=(PriceKey("custom-metric", region),),
        desired=len(GAUGES),
        maximum=len(GAUGES),
        note="by the hours with a value; at the price of an account's first metrics, the dearest",
        while_stopped=False,
    )


def _of(resource: PlannedResource, region: str) -> Iterator[Component]:
    if resource.type == "aws_vpc_endpoint":
        yield from _endpoint(resource, region)
    elif resource.type in _ONE_EACH:
        name, product, more = _ONE_EACH[resource.type]
        keys = (PriceKey(product, region),)
        yield Component(address=resource.address, what=name, keys=keys, note=more)
    elif resource.type in _BY_USE:
        what, note = _BY_USE[resource.type]
        yield Component(
            address=resource.address, what=what, note=f"{note}; not in the totals", counted=False
        )
    elif resource.type not in _FREE and not resource.type.startswith(_FREE_PREFIXES):
        yield Component(
            address=resource.address,
            what=resource.type,
            problem=f"no price is known here for {resource.type}",
        )


def _endpoint(resource: PlannedResource, region: str) -> Iterator[Component]:
    kind = resource.values.get("vpc_endpoint_type") or "Gateway"
    if kind == "Gateway":
        return
    zones = resource.number_of("subnet_ids") if kind == "Interface" else None
    yield Component(
        address=resource.address,
        what=f"{kind.lower()} endpoint in a zone",
        keys=(PriceKey("interface-endpoint", region),) if zones else (),
        desired=zones or 1,
        maximum=zones or 1,
        note="and each GB that goes through it",
        problem=None
        if zones
        else f"no price is known here for a {kind} endpoint in an unknown number of zones",
    )
