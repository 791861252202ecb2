"""Read a stack's planned resources, and price a started Auto Scaling group: instances, volumes,
addresses. Pure, except for EC2's launch templates that a plan only names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from terradask._aws.session import Aws
from terradask._catalog.prices.prices import Component, PriceKey, Volumes, gp3_volume
from terradask._common.plan_modules import expressions_of, value_resources
from terradask.errors import AwsError
from terradask_modules.errors import InvalidInput
from terradask_modules.markets import Market
from terradask_modules.names import WORKER_GROUP
from terradask_stacks.numbers import DEFAULT_WORKERS, first_of


@dataclass(frozen=True)
class PlannedResource:
    """One resource after the apply."""

    address: str
    type: str
    #: The values that are known at plan time.
    values: Mapping[str, Any]
    #: The configuration's expressions by attribute, for values known only after the apply.
    expressions: Mapping[str, Any] = field(default_factory=dict)

    def number_of(self, attribute: str) -> int | None:
        """Return the length of a list; None if neither values nor configuration give it."""
        known = self.values.get(attribute)
        if isinstance(known, list):
            return len(known)
        expression = self.expressions.get(attribute)
        if not isinstance(expression, Mapping):
            return None
        constant = expression.get("constant_value")
        if isinstance(constant, list):
            return len(constant)
        # `aws_subnet.a.id` comes with `aws_subnet.a`.
        return (
            sum(reference.endswith(".id") for reference in expression.get("references", ())) or None
        )


@dataclass(frozen=True)
class PlannedStack:
    """A stack after the apply."""

    #: AWS region of its provider; None if unknown.
    region: str | None
    #: The resources.
    resources: tuple[PlannedResource, ...]
    #: The cluster's ``cluster.json``; empty for other stacks.
    descriptor: Mapping[str, Any]
    #: The resource that contains it; None for other stacks.
    descriptor_resource: PlannedResource | None = None

    @property
    def reasons(self) -> Mapping[str, str]:
        """Group -> reason for its instance types, in a line; empty if not recorded."""
        lock = self.descriptor.get("lock") or {}
        return dict(lock.get("reasons") or {})

    @property
    def container(self) -> str | None:
        """The hosts' container image with its digest, if any."""
        return (self.descriptor.get("lock") or {}).get("container")

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> PlannedStack:
        """Read a plan's JSON. Raises `InvalidInput` for missing parts."""
        if document.get("planned_values") is None:
            raise InvalidInput(
                "a plan's cost can't be estimated: the plan is incomplete",
                given="a plan without planned_values",
                allowed="all that terraform show -json PLAN prints",
            )
        configuration = document.get("configuration") or {}
        provider = (configuration.get("provider_config") or {}).get("aws") or {}
        expressions = expressions_of(document)
        resources = tuple(
            PlannedResource(
                address=entry["address"],
                type=entry["type"],
                values=entry.get("values") or {},
                expressions=expressions.get(entry["address"].partition("[")[0], {}),
            )
            for entry in value_resources(document["planned_values"])
            if entry.get("mode", "managed") == "managed"
        )
        region = ((provider.get("expressions") or {}).get("region") or {}).get("constant_value")
        resource, descriptor = _descriptor(resources)
        return cls(
            region=region, resources=resources, descriptor=descriptor, descriptor_resource=resource
        )


def _descriptor(
    resources: tuple[PlannedResource, ...],
) -> tuple[PlannedResource | None, Mapping[str, Any]]:
    for resource in resources:
        if resource.type == "aws_s3_object" and str(resource.values.get("key", "")).endswith(
            "/cluster.json"
        ):
            try:
                document = json.loads(resource.values.get("content") or "")
            except ValueError:
                continue
            if isinstance(document, dict):
                return resource, document
    return None, {}


# ---- an Auto Scaling group's components ----------------------------------------------------------


#: AWS (documented, zone-traffic): EC2 bills data between zones in both directions, by the GB, and
#: none within a zone.
#: https://aws.amazon.com/ec2/pricing/on-demand/#Data_Transfer_within_the_same_AWS_Region
_CROSS_ZONE = (
    "in several zones: AWS charges for each GB between them, in both directions; not in the totals"
)

#: AWS (documented, cr-price): EC2 bills a capacity reservation at the on-demand rate, used or not,
#: and an instance in it not again. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-reservations-pricing-billing.html
_RESERVED = "in {}, which costs this for each machine, used or not; its unused ones aren't counted"
#: AWS (documented, cr-block-price): A capacity block's price is paid in advance, and an instance of
#: Linux in it costs nothing more. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/capacity-blocks-pricing-billing.html
_BLOCK = "in a capacity block, which is paid in advance; not in the totals"

_MARKETS: tuple[Market, ...] = ("on-demand", "spot")


@dataclass(frozen=True)
class TemplateVersion:
    """A launch template in one version."""

    id: str
    version: str


@dataclass(frozen=True)
class HostLaunch:
    """A launch template's configuration of each instance."""

    #: The type, if the group names none.
    instance_type: str | None = None
    #: Total of its gp3 volumes; None if unknown.
    volumes: Volumes | None = None
    #: Whether an instance gets a public IPv4 address; None if the subnet decides.
    public_address: bool | None = None


@dataclass(frozen=True)
class _Sizes:
    desired: int
    maximum: int


def template_of(group: PlannedResource) -> TemplateVersion | None:
    """Return a planned group's launch template; None if unknown."""
    mixed = _first(_first(group.values.get("mixed_instances_policy")).get("launch_template"))
    single = _first(group.values.get("launch_template"))
    used = _first(mixed.get("launch_template_specification")) or single
    name, version = used.get("launch_template_id") or used.get("id"), used.get("version")
    return TemplateVersion(str(name), str(version)) if name and version else None


def group_components(
    group: PlannedResource, stack: PlannedStack, region: str, launch: HostLaunch | None
) -> Iterator[Component]:
    """Yield the cost components of a group at its sizes."""
    launch = launch or HostLaunch()
    sizes = _sizes(group, stack)
    part = partial(
        Component,
        address=group.address,
        desired=sizes.desired,
        maximum=sizes.maximum,
        while_stopped=False,
    )
    types = _types(group, launch)
    zones = tuple(_entry(group, stack).get("zones") or filter(None, [stack.descriptor.get("zone")]))
    if types:
        yield from _instances(
            part,
            _by_market(group, sizes),
            sizes,
            types,
            region=region,
            zones=zones,
            reserved=_reserved(group),
        )
    else:
        problem = "neither the group nor its launch template names its instance types"
        yield part(what="instances", problem=problem)
    yield from _volumes(part, region, launch.volumes)
    kept = int(_first(group.values.get("warm_pool")).get("min_size") or 0)
    if kept:
        prepared = partial(
            Component,
            address=group.address,
            desired=kept,
            maximum=kept,
            note="of prepared hosts, also while the cluster is stopped; not the minutes in which "
            "they are prepared",
        )
        yield from _volumes(prepared, region, launch.volumes)
    if launch.public_address is None:
        problem = "whether instances get a public address isn't known"
        yield part(what="public IPv4 address", problem=problem)
    elif launch.public_address:
        yield part(what="public IPv4 address", keys=(PriceKey("public-ipv4", region),))


def _instances(
    part: Callable[..., Component],
    planned: Mapping[Market, _Sizes],
    sizes: _Sizes,
    types: tuple[str, ...],
    *,
    region: str,
    zones: tuple[str, ...],
    reserved: str | None,
) -> Iterator[Component]:
    notes = [reserved, _CROSS_ZONE if len(zones) > 1 else None]
    for market in _MARKETS:
        counted = planned[market].maximum > 0 or (market == "on-demand" and sizes.maximum == 0)
        shown = planned[market] if counted else sizes
        # Spot prices differ by zone; on-demand ones are the region's.
        where = zones if market == "spot" else (None,)
        keys = tuple(
            PriceKey("instance", region, name, market, zone) for zone in where for name in types
        )
        yield part(
            what=f"{' or '.join(types)} (Linux, {market})",
            keys=keys,
            desired=shown.desired,
            maximum=shown.maximum,
            market=market,
            note="; ".join(filter(None, notes)) or None
            if counted
            else "to compare; not in the totals",
            problem="the plan doesn't name the zone of the spot price"
            if market == "spot" and not zones
            else None,
            counted=counted and reserved != _BLOCK,
        )


def _reserved(group: PlannedResource) -> str | None:
    """Return the remark on the price of hosts whose machines are reserved."""
    given = _first(group.values.get("capacity_reservation_specification"))
    target = _first(given.get("capacity_reservation_target"))
    kinds = ("capacity_reservation_ids", "capacity_reservation_resource_group_arns")
    names = [name for kind in kinds for name in target.get(kind) or ()]
    if not names:
        return None
    is_block = not group.values.get("mixed_instances_policy")
    return _BLOCK if is_block else _RESERVED.format(", ".join(names))


def _volumes(
    part: Callable[..., Component], region: str, volumes: Volumes | None
) -> Iterator[Component]:
    if volumes is None:
        problem = "the volumes of the launch template aren't known, or aren't gp3"
        yield part(what="volume", amount=Decimal(0), problem=problem)
        return
    what = {
        "gp3-storage": f"gp3 volume, {volumes.gib} GiB",
        "gp3-throughput": f"gp3 throughput, {volumes.mibps} MiB/s more",
        "gp3-iops": f"gp3 IOPS, {volumes.iops} more",
    }
    for key, amount in volumes.parts(region):
        yield part(what=what[key.product], keys=(key,), amount=amount)


def _entry(group: PlannedResource, stack: PlannedStack) -> Mapping[str, Any]:
    """Return the group's entry in the cluster's descriptor."""
    entries = (stack.descriptor.get("groups") or {}).values()
    name = group.values.get("name")
    return next((entry for entry in entries if entry.get("autoscaling_group") == name), {})


def _types(group: PlannedResource, launch: HostLaunch) -> tuple[str, ...]:
    template = _first(_first(group.values.get("mixed_instances_policy")).get("launch_template"))
    named = [override.get("instance_type") for override in template.get("override") or []]
    return tuple(
        dict.fromkeys(name for name in [*named, *([] if named else [launch.instance_type])] if name)
    )


def _sizes(group: PlannedResource, stack: PlannedStack) -> _Sizes:
    """Return the started and largest number of instances of a cluster's group."""
    maximum = int(group.values.get("max_size") or 0)
    entry = _entry(group, stack)
    if entry.get("role") == "scheduler":
        desired = 1
    elif entry.get("role") == "worker":
        desired = _workers_at_start(entry, stack)
    else:
        desired = int(group.values.get("desired_capacity") or group.values.get("min_size") or 0)
    return _Sizes(min(desired, maximum), maximum)


def _workers_at_start(entry: Mapping[str, Any], stack: PlannedStack) -> int:
    """Return the number of workers that start in one of their groups."""
    mine = entry.get("worker_group", WORKER_GROUP)
    workers = [
        other
        for other in stack.descriptor["groups"].values()
        if other.get("role") == "worker" and other.get("worker_group", WORKER_GROUP) == mine
    ]
    # All start on the preferred market: Spot before on demand.
    if entry is not min(workers, key=lambda other: other.get("market") != "spot"):
        return 0
    settings, default = stack.descriptor.get("settings") or {}, DEFAULT_WORKERS
    if mine != WORKER_GROUP:
        settings, default = (settings.get("worker_groups") or {}).get(mine, {}), 0
    at_start = first_of(settings.get("n_workers"))
    return default if at_start is None else at_start


def _by_market(group: PlannedResource, sizes: _Sizes) -> dict[Market, _Sizes]:
    distribution = _first(
        _first(group.values.get("mixed_instances_policy")).get("instances_distribution")
    )
    base = int(distribution.get("on_demand_base_capacity") or 0)
    percentage = distribution.get("on_demand_percentage_above_base_capacity")
    share = 100 if percentage is None else int(percentage)

    def on_demand(number: int) -> int:
        above = max(number - base, 0)
        # Rounded up to the more expensive half of an instance.
        return number - above + -(-above * share // 100)

    first = _Sizes(on_demand(sizes.desired), on_demand(sizes.maximum))
    return {
        "on-demand": first,
        "spot": _Sizes(sizes.desired - first.desired, sizes.maximum - first.maximum),
    }


def _first(blocks: Any) -> Mapping[str, Any]:
    block = blocks[0] if isinstance(blocks, list) and blocks else None
    return block if isinstance(block, Mapping) else {}


# ---- instances' configuration, read from EC2 where a plan only names a template ------------------


def read_launches(aws: Aws, *documents: Mapping[str, Any]) -> dict[TemplateVersion, HostLaunch]:
    """Read the launch templates of the groups of one or several plans.

    Permission needed: ``ec2:DescribeLaunchTemplateVersions``.
    """
    found: dict[TemplateVersion, HostLaunch] = {}
    every = [resource for each in documents for resource in PlannedStack.of(each).resources]
    own = {
        resource.values.get("id") for resource in every if resource.type == "aws_launch_template"
    }
    groups = [resource for resource in every if resource.type == "aws_autoscaling_group"]
    for template in dict.fromkeys(filter(None, map(template_of, groups))):
        if template.id in own:
            # Planned beside the group: the plan contains it.
            continue
        try:
            answer = aws.client("ec2").describe_launch_template_versions(
                LaunchTemplateId=template.id, Versions=[template.version]
            )
        except (AwsError, BotoCoreError, ClientError):
            continue
        for version in answer["LaunchTemplateVersions"]:
            found[template] = launch_of(version["LaunchTemplateData"])
    return found


def launch_of(data: Mapping[str, Any]) -> HostLaunch:
    """Return the configuration in one version of a launch template."""
    interfaces = data.get("NetworkInterfaces") or [{}]
    public = interfaces[0].get("AssociatePublicIpAddress")
    mappings = data.get("BlockDeviceMappings") or []
    return HostLaunch(
        instance_type=data.get("InstanceType"),
        volumes=_template_volumes([mapping["Ebs"] for mapping in mappings if mapping.get("Ebs")]),
        # Terraform writes it as text, and empty if unset.
        public_address=None if public in (None, "") else str(public).lower() == "true",
    )


def _template_volumes(volumes: list[Mapping[str, Any]]) -> Volumes | None:
    """Return the total of all volumes; None without any, or if one isn't a gp3 of a known size."""
    known = [each for each in volumes if each.get("VolumeType") == "gp3" and each.get("VolumeSize")]
    if not volumes or len(known) < len(volumes):
        return None
    return sum((gp3_volume(each["VolumeSize"], each) for each in known), Volumes())


def planned_launch(group: PlannedResource, stack: PlannedStack) -> HostLaunch | None:
    """Return the configuration of a group's launch template of the same stack, or None."""
    named = json.dumps(
        [group.expressions.get("mixed_instances_policy"), group.expressions.get("launch_template")]
    )
    for resource in stack.resources:
        # Terraform lists the address itself among references.
        if resource.type == "aws_launch_template" and f'"{resource.address}"' in named:
            data = _as_ec2_names_it(resource.values)
            mappings = data.get("BlockDeviceMappings") or []
            volumes = [{"Ebs": ebs} for one in mappings for ebs in one.get("Ebs") or []]
            return launch_of({**data, "BlockDeviceMappings": volumes})
    return None


def _as_ec2_names_it(value: Any) -> Any:
    """Return planned values with EC2's names: ``VolumeSize`` for ``volume_size`` and so on."""
    if isinstance(value, list):
        return [_as_ec2_names_it(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {
        "".join(map(str.capitalize, name.split("_"))): _as_ec2_names_it(each)
        for name, each in value.items()
    }
