"""Check named instance types: whether they exist, are available, and fit together in a group and in
a cluster. Pure.
"""

from __future__ import annotations

import difflib
import string
from collections.abc import Collection, Mapping
from dataclasses import replace

from terradask._catalog.instance_types.constraints import gpu_model, model_key
from terradask._catalog.instance_types.model import Catalog, InstanceType, Supply
from terradask.errors import InvalidInput, NoMatchingType
from terradask_stacks.hardware.request import HardwareRequest

#: Number of proposals for a type that doesn't exist.
_NEAR = 3


def named_types(request: HardwareRequest, supply: Supply) -> tuple[InstanceType, ...]:
    """Return a request's named types, in its order.

    Raises `NoMatchingType`, `InvalidInput`.
    """
    _check_known(request, supply)
    types = tuple(supply.catalog.types[name] for name in request.vm_types)
    _check_offered(request, supply)
    _check_market(request, types, supply)
    _check_architecture(request, types)
    _check_gpus(request, types, supply)
    return types


def with_one_architecture(
    requests: Mapping[str, HardwareRequest], catalog: Catalog
) -> dict[str, HardwareRequest]:
    """Request ARM for all groups if one names ARM types. Raises `InvalidInput`."""
    named: dict[str, list[str]] = {"arm64": [], "x86_64": []}
    for request in requests.values():
        for one in (catalog.types[name] for name in request.vm_types if name in catalog.types):
            named[one.architecture].append(f"{one.name} ({request.option('vm_types')})")
    if all(named.values()):
        raise InvalidInput(
            "types for ARM and for x86-64 are named: all hosts of a cluster have one "
            "architecture, since they share one environment",
            given=f"ARM: {', '.join(named['arm64'])}; x86-64: {', '.join(named['x86_64'])}",
            allowed="types for one architecture, of the scheduler and of all workers",
            advice="name other types, or make a cluster for each architecture",
        )
    implied = bool(named["arm64"])
    return {
        group: replace(request, arm=True) if implied and request.arm is None else request
        for group, request in requests.items()
    }


def _check_known(request: HardwareRequest, supply: Supply) -> None:
    known = supply.catalog.types
    unknown = [name for name in request.vm_types if name not in known]
    if not unknown:
        return
    near = dict.fromkeys(match for name in unknown for match in _near(name, known))
    raise NoMatchingType(
        f"{supply.catalog.region} has no such instance type for Linux on x86-64 or ARM",
        given=f"{request.option('vm_types')}: {', '.join(unknown)}",
        allowed="; ".join(_offer(name, supply) for name in near)
        or "types that `terradask types` lists",
        advice=f"correct {request.option('vm_types')}",
    )


def _near(name: str, known: Collection[str]) -> list[str]:
    """Return the types that were probably meant: of a similar family, ``p`` of ``p3.2xlarge``, else
    with the most similar spelling.
    """
    family, _, size = name.partition(".")

    def unlike(each: str) -> tuple[float, bool, float, str]:
        its_family, _, its_size = each.partition(".")
        return -_ratio(family, its_family), its_size != size, -_ratio(name, each), each

    kind = _letters(name)
    same = sorted((each for each in known if _letters(each) == kind), key=unlike)
    return same[:_NEAR] or difflib.get_close_matches(name, known, _NEAR, 0.6)


def _letters(name: str) -> str:
    return name[: len(name) - len(name.lstrip(string.ascii_lowercase))]


def _ratio(one: str, other: str) -> float:
    return difflib.SequenceMatcher(None, one, other).ratio()


def _check_offered(request: HardwareRequest, supply: Supply) -> None:
    missing = [name for name in request.vm_types if not supply.has(name)]
    if missing:
        raise NoMatchingType(
            f"{supply.where} doesn't offer {', '.join(missing)}",
            given=request.given(),
            allowed="; ".join(_offer(name, supply) for name in missing),
            advice=f"choose another zone_name, or other {request.option('vm_types')}",
        )


def _check_market(
    request: HardwareRequest, types: tuple[InstanceType, ...], supply: Supply
) -> None:
    missing = [one.name for one in types if not supply.sells(one)]
    if missing:
        raise NoMatchingType(
            f"AWS doesn't sell {', '.join(missing)} {supply.how}",
            given=request.given(),
            allowed=f"types for sale {supply.how}",
        )


def _check_architecture(request: HardwareRequest, types: tuple[InstanceType, ...]) -> None:
    arm = [one.name for one in types if one.architecture == "arm64"]
    other = [one.name for one in types if one.architecture != "arm64"]
    option = request.option("vm_types")
    if arm and other:
        raise InvalidInput(
            f"{option} has types for ARM and for x86-64: a group has one image, for one of them",
            given=f"ARM: {', '.join(arm)}; x86-64: {', '.join(other)}",
            allowed="types for one architecture",
            advice=f"leave {', '.join(arm if len(arm) < len(other) else other)} out",
        )
    wrong = other if request.arm else arm if request.arm is False else []
    if wrong:
        raise InvalidInput(
            f"arm={request.arm}, but {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} "
            f"for {'x86-64' if request.arm else 'ARM'}",
            given=request.given(),
            allowed=f"types for {'ARM' if request.arm else 'x86-64'}",
            advice="leave arm out: the named types determine it",
        )


def _check_gpus(request: HardwareRequest, types: tuple[InstanceType, ...], supply: Supply) -> None:
    if not request.gpus_wanted:
        return
    model = gpu_model(request, supply.catalog) if request.gpu_type is not None else None
    without = [
        one.name
        for one in types
        if one.gpus is None or (model and model_key(one.gpus.name) != model_key(model))
    ]
    if without:
        kind = f"{model} GPUs" if model else "GPUs"
        options = [
            request.option("vm_types"),
            request.option("gpu" if model is None else "gpu_type"),
        ]
        raise InvalidInput(
            f"{options[1]} asks for {kind}, which {', '.join(without)} "
            f"{'lacks' if len(without) == 1 else 'lack'}",
            given=request.given(),
            allowed=f"types with {kind}",
            advice=f"leave {options[1]} out, or name other types",
        )


def _offer(name: str, supply: Supply) -> str:
    return f"{name} in {', '.join(supply.catalog.zones_with(name)) or 'no zone'}"
