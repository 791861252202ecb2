"""What one release of botocore's models changes for calls that another one describes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from botocore.model import ListShape, MapShape, OperationModel, ServiceModel, Shape, StructureShape


@dataclass(frozen=True)
class Change:
    """One change, and whether calls that work by the older models may fail by the newer."""

    where: str
    what: str
    breaks: bool = False

    def __str__(self) -> str:
        return f"{self.where} {self.what}"


def changes(old: ServiceModel, new: ServiceModel, name: str) -> Iterator[Change]:
    """Yield the changes of one operation."""
    where = f"{old.service_name}:{name}"
    if name not in new.operation_names:
        yield Change(where, "is gone", breaks=True)
        return
    before, after = old.operation_model(name), new.operation_model(name)
    if after.deprecated and not before.deprecated:
        yield Change(where, "is deprecated", breaks=True)
    for key in ("method", "requestUri"):
        if before.http.get(key) != after.http.get(key):
            sent = f"{key}: {before.http.get(key)} -> {after.http.get(key)}"
            yield Change(where, sent, breaks=True)
    yield from _errors(where, before, after)
    yield from _shapes(f"{where} takes", before.input_shape, after.input_shape, given=True)
    yield from _shapes(f"{where} returns", before.output_shape, after.output_shape, given=False)


def _errors(where: str, before: OperationModel, after: OperationModel) -> Iterator[Change]:
    codes = [{one.name for one in each.error_shapes} for each in (before, after)]
    for code in sorted(codes[1] - codes[0]):
        yield Change(where, f"may fail with {code}")
    for code in sorted(codes[0] - codes[1]):
        yield Change(where, f"fails no more with {code}")


def _shapes(
    where: str,
    before: Shape | None,
    after: Shape | None,
    *,
    given: bool,
    above: frozenset[str] = frozenset(),
) -> Iterator[Change]:
    """Yield the changes below a shape; ``given`` is whether callers send it."""
    if before is None or after is None:
        if before is not None or (given and after is not None and after.required_members):
            yield Change(where, "is something else", breaks=True)
        return
    if before.type_name != after.type_name:
        kinds = f"{before.type_name} -> {after.type_name}"
        yield Change(where, f"has another type: {kinds}", breaks=True)
        return
    if _wire(before) != _wire(after):
        yield Change(where, f"is written otherwise: {_wire(before)} -> {_wire(after)}", breaks=True)
    if before.name in above:
        return
    above |= {before.name}
    match before, after:
        case StructureShape(), StructureShape():
            yield from _members(where, before, after, given, above)
        case ListShape(), ListShape():
            yield from _shapes(f"{where}[]", before.member, after.member, given=given, above=above)
        case MapShape(), MapShape():
            yield from _shapes(f"{where}{{}}", before.value, after.value, given=given, above=above)
    yield from _values(where, before, after, given)


def _members(
    where: str,
    before: StructureShape,
    after: StructureShape,
    given: bool,
    above: frozenset[str],
) -> Iterator[Change]:
    for name in before.members:
        if name in after.members:
            yield from _shapes(
                f"{where}.{name}",
                before.members[name],
                after.members[name],
                given=given,
                above=above,
            )
        else:
            yield Change(f"{where}.{name}", "is gone", breaks=True)
    for name in sorted(after.members.keys() - before.members.keys()):
        required = given and name in after.required_members
        yield Change(f"{where}.{name}", "is new" + " and required" * required, breaks=required)
    for name in sorted({*after.required_members} - {*before.required_members}):
        if name in before.members:
            yield Change(f"{where}.{name}", "is required now", breaks=given)


def _values(where: str, before: Shape, after: Shape, given: bool) -> Iterator[Change]:
    values = [{*(each.metadata.get("enum") or ())} for each in (before, after)]
    for value in sorted(values[1] - values[0]):
        yield Change(where, f"may be {value!r}" if values[0] else f"is limited: {value!r}")
    if values[1] and values[0] - values[1]:
        gone = ", ".join(sorted(values[0] - values[1]))
        yield Change(where, f"is no more one of {gone}", breaks=given)
    for limit in ("min", "max", "pattern"):
        one, other = before.metadata.get(limit), after.metadata.get(limit)
        if one != other:
            yield Change(where, f"{limit}: {one} -> {other}")


def _wire(shape: Shape) -> Any:
    kept = ("name", "location", "queryName", "flattened", "timestampFormat", "payload")
    return {key: shape.serialization[key] for key in kept if key in shape.serialization}
