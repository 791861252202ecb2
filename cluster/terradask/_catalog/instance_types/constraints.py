"""Turn a request into exact constraints, and name reasons to reject types (decision 023)."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from terradask._catalog.instance_types.model import Catalog, InstanceType, Supply
from terradask._common.naming import counted
from terradask.errors import InvalidInput
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.hardware.quantities import ANY, GIB, Span
from terradask_stacks.hardware.request import MAX_TYPES, HardwareRequest

#: The request by default, for workers and schedulers alike.
DEFAULT_CORES = Span(4, 4)
DEFAULT_MEMORY = Span(16 * GIB, 16 * GIB)

#: The default number of cores beside a GPU.
_CORES_BESIDE_A_GPU = Span(4, 8)

#: 4 GiB a core; beside them 2 and 8 GiB a core.
BALANCED = frozenset({"m"})
COMMON = frozenset({"c", "m", "r"})

#: AWS (documented): EC2's series dl, f, inf, trn and vt have accelerators that aren't GPUs.
#: https://docs.aws.amazon.com/ec2/latest/instancetypes/ac.html
_ACCELERATED = frozenset({"dl", "f", "inf", "trn", "vt"})

#: The first generation of each series without members on Xen; of ARM's a, one that Amazon Linux
#: 2023 supports.
#: AWS (recorded): EC2 DescribeInstanceTypes counts m6i and g5 as previous generation, and t2 as
#: current. https://github.com/getmoto/moto/blob/0af643a5d/moto/ec2/resources/instance_types.json.gz
_FIRST_GENERATION = {"a": 2, "c": 5, "d": 3, "h": 2, "i": 4, "m": 5, "r": 5, "t": 3, "x": 2}


class Rejection(StrEnum):
    """The reason to reject a type, as a suffix to a number of types."""

    ARCHITECTURE = "for another architecture"
    GPUS = "without the GPUs"
    CORES = "with fewer or more cores"
    MEMORY = "with less or more memory"
    ZONE = "not offered there"
    MARKET = "not for sale that way"
    ACCELERATOR = "with an accelerator that wasn't requested"
    GPU_SHARE = "with a share of a GPU"
    SERIES = "of other families"
    SHARED_CORES = "with shared cores (burstable, flex)"
    OLD = "of an old generation"
    BARE_METAL = "bare metal"
    PRICE = "more than twice as expensive as the cheapest, or as large if no price is known"
    BEYOND = "beyond the first 40"


#: Matching types that must be named; in order of proposals.
TO_BE_NAMED = (Rejection.SERIES, Rejection.GPU_SHARE, Rejection.OLD, Rejection.BARE_METAL)


@dataclass(frozen=True)
class Constraints:
    """The constraints on a type."""

    architecture: Architecture
    cores: Span = ANY
    #: Memory in bytes, including the tolerance.
    memory: Span = ANY
    #: The exact number of GPUs.
    gpus: int = 0
    #: The GPUs' model as `model_key` writes it; None for any.
    gpu_model: str | None = None
    #: Permitted series; None for all.
    series: frozenset[str] | None = None
    #: Whether burstable and flex types are permitted.
    shared_cores: bool = False

    def rejection(self, one: InstanceType, supply: Supply) -> Rejection | None:
        """Return the first reason to reject a type: size first, then the rules."""
        if one.architecture != self.architecture:
            return Rejection.ARCHITECTURE
        if self.gpus and (
            one.gpus is None
            or one.gpus.count != self.gpus
            or self.gpu_model not in (None, model_key(one.gpus.name))
        ):
            return Rejection.GPUS
        if one.vcpus not in self.cores:
            return Rejection.CORES
        if one.memory_mib << 20 not in self.memory:
            return Rejection.MEMORY
        # All of the t series share cores, also new types of it.
        shares_cores = one.burstable or one.series == "t" or one.variant == "flex"
        # g6f, gr6f: a fraction of a GPU, which DescribeInstanceTypes shows by a count of 0.
        shares_a_gpu = one.series.startswith("g") and "f" in one.attributes
        against = {
            Rejection.ZONE: not supply.has(one.name),
            Rejection.MARKET: not supply.sells(one),
            Rejection.ACCELERATOR: not self.gpus
            and (one.gpus is not None or one.series in _ACCELERATED),
            Rejection.GPU_SHARE: self.gpus and shares_a_gpu,
            Rejection.BARE_METAL: one.bare_metal,
            Rejection.OLD: not self.gpus and one.generation < _FIRST_GENERATION.get(one.series, 0),
            Rejection.SHARED_CORES: not self.shared_cores and shares_cores,
            Rejection.SERIES: self.series is not None
            and one.series not in self.series
            and not (self.shared_cores and one.series == "t"),
        }
        return next((why for why, holds in against.items() if holds), None)


@dataclass(frozen=True)
class Attempt:
    """Constraints, with their explanation."""

    constraints: Constraints
    #: The rule for families.
    rule: str
    #: Remark if this attempt is the first that finds types.
    note: str | None = None


def attempts_for(request: HardwareRequest, supply: Supply) -> list[Attempt]:
    """Return a request's constraints, the preferred first. Raises `InvalidInput`."""
    architecture: Architecture = "arm64" if request.arm else "x86_64"
    count = request.gpus_wanted
    if count:
        return _with_gpus(request, supply, architecture, count)
    cores, memory, series, rule = request.cpu, request.memory, COMMON, "families c, m and r"
    if cores is None and memory is None:
        cores = DEFAULT_CORES
        memory = DEFAULT_MEMORY
        rule = f"{rule}; by default 4 cores and 16 GiB"
    elif any(span is not None and span.is_any for span in (cores, memory)):
        return _alone_and_shared(
            Constraints(architecture, cores or ANY, _tolerant(memory)),
            "every family, since '*' is given",
        )
    elif cores is None or memory is None:
        series = BALANCED
        given = "cores alone are" if memory is None else "memory alone is"
        rule = f"family m (4 GiB a core), since {given} given"
    return _alone_and_shared(
        Constraints(architecture, cores or ANY, _tolerant(memory), series=series), rule
    )


def _alone_and_shared(constraints: Constraints, rule: str) -> list[Attempt]:
    note = (
        "no other type is as small: these share their cores and are slowed down, or cost more, "
        "under steady load"
    )
    return [
        Attempt(constraints, rule),
        Attempt(replace(constraints, shared_cores=True), rule, note),
    ]


def _with_gpus(
    request: HardwareRequest, supply: Supply, architecture: Architecture, count: int
) -> list[Attempt]:
    model = gpu_model(request, supply.catalog)
    constraints = Constraints(
        architecture, request.cpu or ANY, _tolerant(request.memory), count, model_key(model)
    )
    rule = f"types with {counted(count, f'{model} GPU')}"
    if count > 1 or request.cpu is not None or request.memory is not None:
        return [Attempt(constraints, rule)]
    few = replace(constraints, cores=_CORES_BESIDE_A_GPU)
    return [
        Attempt(few, f"{rule} and 4 to 8 cores"),
        Attempt(constraints, rule, f"no type has a {model} GPU beside 4 to 8 cores"),
    ]


def gpu_model(request: HardwareRequest, catalog: Catalog) -> str:
    """Return the requested GPU in AWS's spelling: NVIDIA's T4 by default, or its sibling T4g beside
    ARM processors.

    Raises `InvalidInput`.
    """
    if request.gpu_type is None:
        return "T4g" if request.arm else "T4"
    return known_gpu(request.option("gpu_type"), request.gpu_type, catalog)


def known_gpu(option: str, model: str, catalog: Catalog) -> str:
    """Return a GPU's name in AWS's spelling. Raises `InvalidInput`."""
    names = {one.gpus.name for one in catalog.types.values() if one.gpus is not None}
    known = {model_key(name): name for name in names}
    key = model_key(model)
    if key in known:
        return known[key]
    near = [known[match] for match in difflib.get_close_matches(key, known, 3, 0.5)]
    raise InvalidInput(
        f"{option} is not a GPU that {catalog.region} has",
        given=repr(model),
        allowed=", ".join(sorted(known.values())) or "none: no instance type there has GPUs",
        advice=f"did you mean {' or '.join(near)}?" if near else "choose one of these",
    )


def model_key(name: str) -> str:
    """Return a GPU's name for comparison: ``nvidia-tesla-t4``, ``NVIDIA T4``, ``t4`` are equal."""
    return re.sub(r"nvidia|tesla|[^a-z0-9]", "", name.lower())


def _tolerant(memory: Span | None) -> Span:
    return ANY if memory is None else memory.within_a_tenth()


# ---- the types that meet a request, best first, and the rejected ones ----------------------------


#: Highest price relative to the cheapest: a fallback must be no surprise.
PRICE_LIMIT = 2


@dataclass(frozen=True)
class Selection:
    """The types for a request."""

    attempt: Attempt
    #: The types, best first; empty if none meets the request.
    types: tuple[InstanceType, ...]
    #: The other types by reason, best first.
    rejections: Mapping[Rejection, tuple[InstanceType, ...]]


def select(request: HardwareRequest, supply: Supply) -> Selection:
    """Return the types of a request's first attempt that finds any. Raises `InvalidInput`."""
    selections = []
    for attempt in attempts_for(request, supply):
        selections.append(_selection(attempt, supply))
        if selections[-1].types:
            return selections[-1]
    return selections[0]


def _selection(attempt: Attempt, supply: Supply) -> Selection:
    fitting: list[InstanceType] = []
    against: dict[Rejection, list[InstanceType]] = {}
    for one in supply.ranked:
        rejection = attempt.constraints.rejection(one, supply)
        (fitting if rejection is None else against.setdefault(rejection, [])).append(one)
    kept: list[InstanceType] = []
    dear: list[InstanceType] = []
    for one in fitting:
        (dear if _too_dear(one, fitting[0], supply) else kept).append(one)
    against |= {Rejection.PRICE: dear, Rejection.BEYOND: kept[MAX_TYPES:]}
    return Selection(
        attempt,
        tuple(kept[:MAX_TYPES]),
        {why: tuple(against[why]) for why in Rejection if against.get(why)},
    )


def _too_dear(one: InstanceType, cheapest: InstanceType, supply: Supply) -> bool:
    """Return whether a type is too expensive; size replaces a missing price."""
    price, least = supply.prices.get(one.name), supply.prices.get(cheapest.name)
    if price is not None and least is not None:
        return price > PRICE_LIMIT * least
    return (
        one.vcpus > PRICE_LIMIT * cheapest.vcpus
        or one.memory_mib > PRICE_LIMIT * cheapest.memory_mib
    )
