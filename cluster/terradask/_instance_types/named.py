"""Instance types that are asked for by name: whether they exist, can be had, and go together."""

from __future__ import annotations

import difflib

from terradask._instance_types.constraints import gpu_model, model_key
from terradask._instance_types.model import InstanceType
from terradask._instance_types.supply import Supply
from terradask.errors import ArgumentCombination, NoMatchingType, UnknownInstanceType
from terradask_stacks.hardware.request import HardwareRequest


def named_types(request: HardwareRequest, supply: Supply) -> tuple[InstanceType, ...]:
    """Return the types that a request names, in its order.

    Raises `UnknownInstanceType`, `NoMatchingType`, `ArgumentCombination`, `InvalidHardware`.
    """
    _check_known(request, supply)
    types = tuple(supply.catalog.types[name] for name in request.vm_types)
    _check_offered(request, supply)
    _check_market(request, types, supply)
    _check_architecture(request, types)
    _check_gpus(request, types, supply)
    return types


def _check_known(request: HardwareRequest, supply: Supply) -> None:
    known = supply.catalog.types
    unknown = [name for name in request.vm_types if name not in known]
    if not unknown:
        return
    near = dict.fromkeys(
        match for name in unknown for match in difflib.get_close_matches(name, known, 3, 0.6)
    )
    raise UnknownInstanceType(
        f"{supply.catalog.region} has no such instance type for Linux on x86-64 or ARM",
        given=f"{request.option('vm_types')}: {', '.join(unknown)}",
        allowed="; ".join(_offer(name, supply) for name in near)
        or "types that `terradask types` lists",
        advice=f"correct {request.option('vm_types')}",
    )


def _check_offered(request: HardwareRequest, supply: Supply) -> None:
    missing = [name for name in request.vm_types if not supply.has(name)]
    if missing:
        raise UnknownInstanceType(
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
        raise ArgumentCombination(
            [option],
            f"{option} has types for ARM and for x86-64: a group has one image, for one of them",
            given=f"ARM: {', '.join(arm)}; x86-64: {', '.join(other)}",
            allowed="types for one architecture",
            advice=f"leave {', '.join(arm if len(arm) < len(other) else other)} out",
        )
    wrong = other if request.arm else arm if request.arm is False else []
    if wrong:
        raise ArgumentCombination(
            [option, "arm"],
            (
                f"arm={request.arm}, but {', '.join(wrong)} {'is' if len(wrong) == 1 else 'are'} "
                f"for {'x86-64' if request.arm else 'ARM'}"
            ),
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
        raise ArgumentCombination(
            options,
            (
                f"{options[1]} asks for {kind}, which {', '.join(without)} "
                f"{'lacks' if len(without) == 1 else 'lack'}"
            ),
            given=request.given(),
            allowed=f"types with {kind}",
            advice=f"leave {options[1]} out, or name other types",
        )


def _offer(name: str, supply: Supply) -> str:
    return f"{name} in {', '.join(supply.catalog.zones_with(name)) or 'no zone'}"
