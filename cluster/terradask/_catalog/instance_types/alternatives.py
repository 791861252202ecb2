"""Find the nearest requests to one that no type meets; each is tried."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

from terradask._catalog.instance_types.constraints import (
    TO_BE_NAMED,
    Constraints,
    Selection,
    gpu_model,
    model_key,
    select,
)
from terradask._catalog.instance_types.model import InstanceType, Supply
from terradask._common.naming import counted
from terradask.errors import NoMatchingType
from terradask_stacks.hardware.quantities import ANY, Span, bytes_text, cores_text, memory_text
from terradask_stacks.hardware.request import HardwareRequest

_MOST = 5
_EXAMPLES = 3
_ZONES = 2


#: A request that finds types: parameters to write (None: leave out), and its types.
Alternative = tuple[Mapping[str, Any], tuple[InstanceType, ...]]


def no_match(request: HardwareRequest, supply: Supply, nothing: Selection) -> NoMatchingType:
    """Return the error for a request that no type meets."""
    constraints = nothing.attempt.constraints
    problem = f"no instance type in {supply.where} has {_sizes(request, constraints, supply)}"
    if any(why in TO_BE_NAMED for why in nothing.rejections):
        problem += ", except types that must be named"
    if "spot" in supply.markets:
        problem += f", for sale {supply.how}"
    return NoMatchingType(
        problem,
        given=request.given(),
        allowed=_gpus_allowed(request, supply, constraints),
        alternatives=nearest(request, supply),
    )


def nearest(request: HardwareRequest, supply: Supply) -> list[dict[str, Any]]:
    """Return the nearest requests with types as JSON, prices as text. Raises `InvalidInput`."""
    nothing = select(request, supply)
    found: dict[tuple[InstanceType, ...], Mapping[str, Any]] = {}
    for change, types in _alternatives(request, supply, nothing):
        found.setdefault(types, change)
        if len(found) == _MOST:
            break
    return [
        {
            "text": _in_words(change, types, usd := supply.prices.get(types[0].name)),
            "change": dict(change),
            "types": [one.name for one in types],
            "usd_per_hour": None if usd is None else str(usd),
        }
        for types, change in found.items()
    ]


def _in_words(
    change: Mapping[str, Any], types: tuple[InstanceType, ...], usd_per_hour: Decimal | None
) -> str:
    """Return an alternative as a line: ``worker_cpu=[1, 4] gives r6a.xlarge, r6i.xlarge, … (4
    cores, 32 GiB, from $0.2268 an hour)``.
    """
    changed = ", ".join(f"{name}={value!r}" for name, value in change.items() if value is not None)
    left_out = " and ".join(name for name, value in change.items() if value is None)
    how = (
        f"{changed} in place of {left_out}"
        if changed and left_out
        else changed or f"{left_out} left out"
    )
    names = [one.name for one in types[:_EXAMPLES]] + ["…"] * (len(types) > _EXAMPLES)
    first = types[0]
    price = f", from ${usd_per_hour:.4f} an hour" if usd_per_hour is not None else ""
    size = f"{cores_text(Span(first.vcpus, first.vcpus))}, {bytes_text(first.memory_mib << 20)}"
    return f"{how} gives {', '.join(names)} ({size}{price})"


def _alternatives(
    request: HardwareRequest, supply: Supply, nothing: Selection
) -> Iterator[Alternative]:
    """Yield alternatives, the most similar first; several may find the same types."""
    yield from _elsewhere(request, supply)
    yield from _similar(request, _any_family(request), supply)
    yield from _by_name(request, supply, nothing)
    yield from _similar(request, _near_sizes(request, supply, nothing.attempt.constraints), supply)
    yield from _similar(request, _near_gpus(request, supply, nothing.attempt.constraints), supply)


def _similar(
    request: HardwareRequest, near_requests: Iterable[HardwareRequest], supply: Supply
) -> Iterator[Alternative]:
    before = request.parameters()
    for near in near_requests:
        if types := select(near, supply).types:
            after = near.parameters()
            names = [name for name in {**before, **after} if before.get(name) != after.get(name)]
            yield {name: after.get(name) for name in names}, types


def _sizes(request: HardwareRequest, constraints: Constraints, supply: Supply) -> str:
    gpus = (
        counted(constraints.gpus, f"{gpu_model(request, supply.catalog)} GPU")
        if constraints.gpus
        else None
    )
    cores = cores_text(constraints.cores) if request.cpu is not None else None
    memory = memory_text(constraints.memory) if request.memory is not None else None
    parts = [part for part in (gpus, cores, memory) if part] or [
        cores_text(constraints.cores),
        memory_text(constraints.memory),
    ]
    return " and ".join(parts) + (" (ARM)" if request.arm else "")


def _elsewhere(request: HardwareRequest, supply: Supply) -> Iterator[Alternative]:
    """Yield the same hardware in other zones or markets."""
    if "spot" in supply.markets:
        types = select(request, replace(supply, markets=frozenset({"on-demand"}))).types
        if types:
            setting = f"{request.prefix}spot_policy" if "." in request.prefix else "spot_policy"
            yield {setting: "on-demand"}, types
    if not supply.zones:
        return
    anywhere = replace(supply, zones=(), offered=None)
    if not select(request, anywhere).types:
        return
    by_zone = {
        zone: select(request, replace(anywhere, zones=(zone,), offered=there)).types
        for zone, there in supply.catalog.zones.items()
    }
    for zone in sorted(by_zone, key=lambda zone: (-len(by_zone[zone]), zone))[:_ZONES]:
        if by_zone[zone]:
            yield {"zone_name": zone}, by_zone[zone]


def _by_name(request: HardwareRequest, supply: Supply, nothing: Selection) -> Iterator[Alternative]:
    """Yield matching types of families that must be named."""
    types = next((nothing.rejections[why] for why in TO_BE_NAMED if why in nothing.rejections), ())
    if types:
        left_out = dict.fromkeys(
            (
                request.option(name)
                for name in ("cpu", "memory")
                if request.option(name) in request.parameters()
            ),
            None,
        )
        change = {request.option("vm_types"): [one.name for one in types[:_EXAMPLES]], **left_out}
        yield change, types[:_EXAMPLES]


def _any_family(request: HardwareRequest) -> Iterator[HardwareRequest]:
    if request.cpu is None and request.memory is not None:
        yield replace(request, cpu=ANY)
    if request.memory is None and request.cpu is not None:
        yield replace(request, memory=ANY)


def _near_sizes(
    request: HardwareRequest, supply: Supply, constraints: Constraints
) -> Iterator[HardwareRequest]:
    """Yield the same memory with other cores, the same cores with other memory, and both nearby."""
    pool = _meeting(replace(constraints, cores=ANY, memory=ANY), supply)
    if request.cpu is not None:
        for cores in _around(
            constraints.cores,
            (one.vcpus for one in pool if one.memory_mib << 20 in constraints.memory),
        ):
            yield replace(request, cpu=request.cpu.widened_to(cores))
    if request.memory is not None:
        for size in _around(
            constraints.memory,
            (one.memory_mib << 20 for one in pool if one.vcpus in constraints.cores),
        ):
            yield replace(request, memory=Span(size, size))
    if request.cpu is not None and request.memory is not None:
        yield replace(request, cpu=None)

        def distance(one: InstanceType) -> float:
            cores = _doublings(constraints.cores, one.vcpus)
            return cores + _doublings(constraints.memory, one.memory_mib << 20)

        closest = min(pool, key=lambda one: (distance(one), supply.rank(one)), default=None)
        if closest is not None:
            size = closest.memory_mib << 20
            yield replace(request, cpu=Span(closest.vcpus, closest.vcpus), memory=Span(size, size))


def _near_gpus(
    request: HardwareRequest, supply: Supply, constraints: Constraints
) -> Iterator[HardwareRequest]:
    """Yield other numbers of the same GPU; the same number of other ones, cheapest first."""
    if not constraints.gpus:
        return
    for count in sorted(
        _gpu_counts(supply, constraints.gpu_model),
        key=lambda count: (abs(count - constraints.gpus), count),
    ):
        yield replace(request, gpu=count)
    others = _meeting(replace(constraints, cores=ANY, memory=ANY, gpu_model=None), supply)
    for name in dict.fromkeys(
        one.gpus.name for one in sorted(others, key=supply.rank) if one.gpus is not None
    ):
        yield replace(request, gpu_type=name)


def _gpus_allowed(request: HardwareRequest, supply: Supply, constraints: Constraints) -> str | None:
    """Return the available numbers of GPUs, if the number makes the request fail."""
    counts = sorted(_gpu_counts(supply, constraints.gpu_model))
    if not constraints.gpus or constraints.gpus in counts:
        return None
    model, most = gpu_model(request, supply.catalog), max(_gpu_counts(supply, None), default=0)
    return f"{' or '.join(map(str, counts)) or 'no'} {model} GPUs; of other models up to {most}"


def _gpu_counts(supply: Supply, model: str | None) -> set[int]:
    return {
        gpus.count
        for one in supply.catalog.types.values()
        if (gpus := one.gpus) and model in (None, model_key(gpus.name))
    }


def _meeting(constraints: Constraints, supply: Supply) -> list[InstanceType]:
    return [
        one for one in supply.catalog.types.values() if constraints.rejection(one, supply) is None
    ]


def _around(span: Span, numbers: Iterable[int]) -> Iterator[int]:
    """Yield the nearest number above a span, and the nearest below."""
    known = set(numbers)
    above = [number for number in known if span.high is not None and number > span.high]
    below = [number for number in known if number < span.low]
    if above:
        yield min(above)
    if below:
        yield max(below)


def _doublings(span: Span, number: int) -> float:
    if number in span:
        return 0
    edge = span.low if number < span.low else span.high
    return abs(math.log2(number / edge)) if edge else 0
