"""A catalog of the types that settings name: two calls, not twenty for the whole region."""

from __future__ import annotations

import datetime
import difflib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, get_args

from terradask._aws.listing import listed
from terradask._instance_types.model import Catalog, read_types
from terradask.errors import AwsError, UnknownInstanceType
from terradask_stacks.hardware.architecture import Architecture

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def named_catalog(
    aws: Aws, named: Iterable[str], default: Iterable[str], zones: Sequence[str]
) -> Catalog:
    """Return a catalog of some types.

    Raises `UnknownInstanceType`.

    Permissions needed: ``ec2:DescribeInstanceTypes``, ``ec2:DescribeInstanceTypeOfferings``.
    """
    # Clients are created here: boto3's sessions aren't thread-safe while they create one.
    client = aws.client("ec2")
    wanted = {*named, *default}
    with ThreadPoolExecutor(2) as pool:
        described = pool.submit(_described, client, wanted)
        offered = pool.submit(_offerings, client, wanted)
        found = described.result()
        _check(set(named), found, aws)
        by_zone = offered.result()
    return Catalog(
        region=aws.region,
        types=read_types(found.values()),
        zones={zone: frozenset(by_zone.get(zone, ())) for zone in zones or sorted(by_zone)},
        fetched_at=datetime.datetime.now(datetime.UTC),
    )


def _described(client: Any, types: Iterable[str]) -> dict[str, Mapping[str, Any]]:
    filters = [{"Name": "instance-type", "Values": sorted(types)}]
    described = listed(client, "describe_instance_types", "InstanceTypes", Filters=filters)
    return {one["InstanceType"]: one for one in described}


def _offerings(
    client: Any, types: Iterable[str] | None, location: str = "availability-zone"
) -> dict[str, set[str]]:
    """Return the types that each zone offers."""
    filters = [{"Name": "instance-type", "Values": sorted(types)}] if types is not None else []
    by_zone: dict[str, set[str]] = {}
    for offer in listed(
        client,
        "describe_instance_type_offerings",
        "InstanceTypeOfferings",
        LocationType=location,
        Filters=filters,
    ):
        by_zone.setdefault(offer["Location"], set()).add(offer["InstanceType"])
    return by_zone


def _check(named: set[str], described: Mapping[str, Mapping[str, Any]], aws: Aws) -> None:
    unknown = sorted(named - set(described))
    if unknown:
        raise UnknownInstanceType(
            f"{aws.region} has no such instance type",
            given=", ".join(unknown),
            allowed=", ".join(_nearest(unknown, aws)),
            advice="correct cluster.worker_vm_types or cluster.scheduler_vm_types",
        )
    known = set(get_args(Architecture))
    foreign = sorted(
        name
        for name in named
        if known.isdisjoint(described[name]["ProcessorInfo"]["SupportedArchitectures"])
    )
    if foreign:
        raise UnknownInstanceType(
            "these instance types are neither x86-64 nor ARM, which hosts need",
            given=", ".join(foreign),
            allowed=(
                "types with Intel's, AMD's or Graviton processors, such as m6i.xlarge or m7g.xlarge"
            ),
            advice="choose other types",
        )


def _nearest(unknown: Iterable[str], aws: Aws) -> list[str]:
    try:
        offered = _offerings(aws.client("ec2"), None, "region")
    except AwsError:
        return ["types that `terradask types` lists"]
    every = sorted({name for names in offered.values() for name in names})
    near = [match for name in unknown for match in difflib.get_close_matches(name, every, 3, 0.6)]
    return list(dict.fromkeys(near)) or ["types that `terradask types` lists"]
