"""Choose instance types: catalog and prices in, types with reasons out. Pure."""

from __future__ import annotations

import difflib
import string
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from terradask._catalog.instance_types.alternatives import no_match
from terradask._catalog.instance_types.constraints import gpu_model, model_key, select
from terradask._catalog.instance_types.model import Catalog, InstanceType, Supply
from terradask._common.naming import some
from terradask._common.text_table import columns
from terradask.errors import InvalidInput, NoMatchingType
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.hardware.quantities import bytes_text, memory_text
from terradask_stacks.hardware.request import HardwareRequest


@dataclass(frozen=True)
class Chosen:
    """A chosen type."""

    type: InstanceType
    #: On-demand price; None if unknown.
    usd_per_hour: Decimal | None
    #: Reason for its rank, such as ``1.11 times the cheapest``.
    reason: str

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output, the price as text."""
        gpus = self.type.gpus
        return {
            "name": self.type.name,
            "vcpus": self.type.vcpus,
            "memory_mib": self.type.memory_mib,
            "gpus": None if gpus is None else {"count": gpus.count, "name": gpus.name},
            "usd_per_hour": None if self.usd_per_hour is None else str(self.usd_per_hour),
            "reason": self.reason,
        }


@dataclass(frozen=True)
class LeftOut:
    """Types that were not chosen, for one reason."""

    #: The reason, as a suffix to a number of types.
    reason: str
    count: int
    #: The cheapest of them.
    examples: tuple[str, ...]

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {"reason": self.reason, "count": self.count, "examples": list(self.examples)}


@dataclass(frozen=True)
class Choice:
    """The types for a request."""

    request: HardwareRequest
    #: Zones or region in words.
    where: str
    #: Architecture of all types.
    architecture: Architecture
    #: The rule for families.
    rule: str
    #: The types in order of preference; never empty.
    types: tuple[Chosen, ...]
    #: The other types of the region, by reason.
    left_out: tuple[LeftOut, ...] = ()
    #: Remarks on an unusual choice.
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The types' names, in order."""
        return tuple(one.type.name for one in self.types)

    @property
    def has_gpus(self) -> bool:
        """Whether the first type has a GPU."""
        return self.types[0].type.gpus is not None

    @property
    def reason(self) -> str:
        """The choice in a line: the first type, the number of others, and the rule."""
        asked = (
            ""
            if self.request.vm_types or self.request.is_silent
            else f" for {self.request.describe()}"
        )
        return f"{some(self.names, 1)}{asked}: {self.rule}"

    def explain(self) -> str:
        """Return the choice as text: the request, the types in order, the types left out."""
        request = self.request
        tolerance = (
            f" (within 10 %: {memory_text(request.memory.within_a_tenth())})"
            if request.memory is not None and not request.memory.is_any
            else ""
        )
        count = len(self.types)
        lines = [
            (
                f"{request.whose}: {request.describe()}{tolerance}, {self.architecture}, in "
                f"{self.where}"
            ),
            f"rule: {self.rule}",
            "1 type:" if count == 1 else f"{count} types, in the order in which they are tried:",
            *(f"  {line}" for line in columns([_row(*one) for one in enumerate(self.types, 1)])),
        ]
        if self.left_out:
            lines += [
                "left out:",
                *(
                    f"  {one.count:>5}  {one.reason} ({_examples(one.examples, one.count)})"
                    for one in self.left_out
                ),
            ]
        return "\n".join([*lines, *(f"note: {note}" for note in self.notes)])

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "role": self.request.role,
            "asked": self.request.parameters(),
            "where": self.where,
            "architecture": self.architecture,
            "rule": self.rule,
            "types": [one.as_dict() for one in self.types],
            "left_out": [one.as_dict() for one in self.left_out],
            "notes": list(self.notes),
        }


def listed_choice(
    request: HardwareRequest,
    supply: Supply,
    types: Sequence[InstanceType],
    rule: str,
    *,
    word: str,
    notes: tuple[str, ...] = (),
) -> Choice:
    """Return a choice of types in a given order, which `word` explains."""
    chosen = tuple(
        Chosen(one, supply.prices.get(one.name), f"{word}, number {place}")
        for place, one in enumerate(types, 1)
    )
    return Choice(request, supply.where, types[0].architecture, rule, chosen, notes=notes)


def _row(place: int, one: Chosen) -> tuple[str, ...]:
    gpus = one.type.gpus
    return (
        f"{place:>2}",
        one.type.name,
        f"{one.type.vcpus} cores" if one.type.vcpus > 1 else "1 core",
        bytes_text(one.type.memory_mib << 20),
        f"{gpus.count} x {gpus.name}" if gpus is not None else "",
        f"${one.usd_per_hour:.4f} an hour" if one.usd_per_hour is not None else "",
        one.reason,
    )


def _examples(names: tuple[str, ...], count: int) -> str:
    return ", ".join([*names, *(["…"] if count > len(names) else [])])


_EXAMPLES = 3


def choose(request: HardwareRequest, supply: Supply) -> Choice:
    """Choose the instance types for a request.

    Raises `NoMatchingType`, with the nearest requests that find types, and `InvalidInput`.
    """
    return _named(request, supply) if request.vm_types else _selected(request, supply)


def choose_default(request: HardwareRequest, names: Iterable[str], supply: Supply) -> Choice | None:
    """Return the default types for an empty request; None if no zone offers any."""
    known = supply.catalog.types
    types = [known[name] for name in names if name in known and supply.has(name)]
    types = [one for one in types if supply.sells(one)]
    if not types:
        return None
    rule = "the default, since no hardware is requested: 4 cores and 16 GiB"
    return listed_choice(request, supply, types, rule, word="default")


def choose_scheduler(request: HardwareRequest, workers: Choice, supply: Supply) -> Choice:
    """Choose the instance types for the scheduler of some workers.

    Unless its own types are named, it has the workers' architecture unless ``arm`` is set, and a
    GPU if the workers have one and its own request leaves it open, provided that a type with one
    meets the rest of the request.

    Raises `TerradaskError`.
    """
    if request.vm_types:
        return choose(request, supply)
    if request.arm is None and workers.architecture == "arm64":
        request = replace(request, arm=True)
    if request.gpu is not None or request.gpu_type is not None or not workers.has_gpus:
        return choose(request, supply)
    try:
        choice = choose(replace(request, gpu=1), supply)
        note = f"a GPU, since the workers have them; {request.option('gpu')}=False leaves it out"
    except NoMatchingType:
        choice = choose(request, supply)
        note = (
            "the workers have GPUs, but no type with a GPU meets this request: the scheduler has "
            "none"
        )
    return replace(choice, notes=(*choice.notes, note))


def _selected(request: HardwareRequest, supply: Supply) -> Choice:
    selection = select(request, supply)
    if not selection.types:
        raise no_match(request, supply, selection)
    attempt = selection.attempt
    unpriced = sum(one.name not in supply.prices for one in selection.types)
    notes = [attempt.note] if attempt.note is not None else []
    if unpriced == len(selection.types):
        notes.append("no price is known: smaller types come first, then newer ones")
    elif unpriced:
        notes.append(
            f"{unpriced} of {len(selection.types)} types have no known price: they come last, "
            "the smaller first"
        )
    return Choice(
        request=request,
        where=supply.where,
        architecture=attempt.constraints.architecture,
        rule=attempt.rule,
        types=_chosen(selection.types, supply),
        left_out=tuple(
            LeftOut(why.value, len(types), tuple(one.name for one in types[:_EXAMPLES]))
            for why, types in selection.rejections.items()
        ),
        notes=tuple(notes),
    )


def _chosen(types: tuple[InstanceType, ...], supply: Supply) -> tuple[Chosen, ...]:
    least = supply.prices.get(types[0].name)
    found = []
    for one in types:
        price = supply.prices.get(one.name)
        if price is None:
            reason = "no known price"
        elif price == least:
            reason = "the cheapest" if one is types[0] else "as cheap"
        else:
            reason = f"{price / least:.2f} times the cheapest" if least else "dearer"
        found.append(Chosen(one, price, reason))
    return tuple(found)


def _named(request: HardwareRequest, supply: Supply) -> Choice:
    types = named_types(request, supply)
    notes = []
    if request.gpu is not None and any(
        (one.gpus.count if one.gpus else 0) != request.gpu for one in types
    ):
        notes.append(
            f"{request.option('gpu')}={request.gpu} is ignored: the named types determine the GPUs"
        )
    rule = "the named types, in their order"
    return listed_choice(request, supply, types, rule, word="named", notes=tuple(notes))


# ---- named types: whether they exist, are available, and fit together ----------------------------


#: Number of proposals for a type that doesn't exist.
_NEAR = 3


def named_types(request: HardwareRequest, supply: Supply) -> tuple[InstanceType, ...]:
    """Return a request's named types, in its order. Raises `NoMatchingType`, `InvalidInput`."""
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
