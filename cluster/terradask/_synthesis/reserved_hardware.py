"""Requests for hardware whose machines are reserved: the type and the zone are the reservation's.
Pure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from terradask._catalog.instance_types.model import Catalog
from terradask._catalog.reservations import Reserved
from terradask.errors import InvalidInput, NoMatchingType
from terradask_modules.names import SCHEDULER_GROUP, WORKER_GROUP
from terradask_stacks.hardware.quantities import bytes_text
from terradask_stacks.hardware.request import HardwareRequest


def with_reserved_types(
    requests: Mapping[str, HardwareRequest], reserved: Mapping[str, Reserved]
) -> dict[str, HardwareRequest]:
    """Return the requests with the types of reservations. The scheduler, which runs beside them,
    gets no GPU unless it is requested: there may be no such machine elsewhere.

    Raises `NoMatchingType`.
    """
    found = {
        group: _with_types(request, reserved[group]) if group in reserved else request
        for group, request in requests.items()
    }
    scheduler = found[SCHEDULER_GROUP]
    if WORKER_GROUP in reserved and scheduler.gpus_wanted == 0 and not scheduler.vm_types:
        found[SCHEDULER_GROUP] = replace(scheduler, gpu=0)
    return found


def _with_types(request: HardwareRequest, reserved: Reserved) -> HardwareRequest:
    if request.is_silent and request.gpu is None:
        return replace(request, vm_types=reserved.types)
    if not request.vm_types:
        return request
    names = tuple(name for name in request.vm_types if name in reserved.types)
    if not names:
        raise reserved_misfit(request, reserved)
    return replace(request, vm_types=names)


def reserved_misfit(
    request: HardwareRequest, reserved: Reserved, catalog: Catalog | None = None
) -> NoMatchingType:
    """Return the error for a request that a reservation doesn't fit."""
    known = catalog.types if catalog else {}
    sizes = [
        f"{name} has {one.vcpus} vCPUs, {bytes_text(one.memory_mib * 1024 * 1024)}"
        + (f", {one.gpus.count} {one.gpus.name} GPU" if one.gpus else "")
        for name in reserved.types
        if (one := known.get(name))
    ]
    return NoMatchingType(
        "the capacity reservation is for other machines than the settings request",
        given=f"{request.given()}; {reserved.given}",
        allowed="; ".join(sizes) or ", ".join(reserved.types),
        advice=f"leave {', '.join(request.parameters())} out, so that the type is the "
        f"reservation's; or name another reservation in {reserved.setting}",
    )


def zones_of_reserved(zones: Sequence[str], reserved: Mapping[str, Reserved]) -> Sequence[str]:
    """Return the zones in which all reservations are. `zones` may be empty: all of the region.

    Raises `InvalidInput`.
    """
    if not reserved:
        return zones
    common = frozenset.intersection(*(one.zones for one in reserved.values()))
    found = [zone for zone in zones if zone in common] if zones else sorted(common)
    if found:
        return found
    raise InvalidInput(
        "the capacity reservations are in no zone in which the whole cluster can be",
        given="; ".join(one.given for one in reserved.values()),
        allowed=f"reservations in {' or '.join(zones) or 'one zone'}",
        advice="name a reservation there; or add the reservation's zone to network.zones and run: "
        "terradask apply network; with cluster.zone_name, name the reservation's zone there",
    )
