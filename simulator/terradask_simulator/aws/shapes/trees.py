"""Whole requests and answers against their shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from xml.etree.ElementTree import Element

from botocore.model import ListShape, MapShape, Shape, StructureShape

from terradask_simulator.aws.shapes.models import members_by_wire_name
from terradask_simulator.aws.shapes.values import (
    problem_of_size,
    problem_of_text,
    problem_of_value,
)

__all__ = ["Problem", "of_form", "of_json", "of_xml", "quoting"]

#: A path of members, and what is wrong there.
Problem = tuple[str, str]


def of_json(shape: Shape, value: Any, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with a value of JSON."""
    match shape:
        case StructureShape():
            if shape.metadata.get("document"):
                return
            if not isinstance(value, Mapping):
                yield path, f"is a {type(value).__name__}, and no structure"
                return
            members = members_by_wire_name(shape, "json")
            yield from _unknown_and_missing(shape, members, value.keys(), path)
            for name, inner in value.items():
                if name in members and name != "__type":
                    yield from of_json(members[name].shape, inner, f"{path}.{name}")
        case ListShape():
            if not isinstance(value, list):
                yield path, f"is a {type(value).__name__}, and no list"
                return
            yield from _size(shape, len(value), path)
            for inner in value:
                yield from of_json(shape.member, inner, f"{path}[]")
        case MapShape():
            if not isinstance(value, Mapping):
                yield path, f"is a {type(value).__name__}, and no map"
                return
            yield from _size(shape, len(value), path)
            for name, inner in value.items():
                yield from of_json(shape.key, name, f"{path}{{key}}")
                yield from of_json(shape.value, inner, f"{path}{{}}")
        case _:
            yield from quoting(path, problem_of_value(shape, value), value)


def of_form(shape: Shape, value: Any, protocol: str, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with nested parameters of a form: ``protocol`` is ``query`` or
    ``ec2-request``.
    """
    if isinstance(shape, StructureShape | ListShape | MapShape) and not isinstance(value, Mapping):
        if value or isinstance(shape, StructureShape):
            yield path, f"is {value!r}, and no {shape.type_name}"
        return
    match shape:
        case StructureShape():
            members = members_by_wire_name(shape, protocol)
            yield from _unknown_and_missing(shape, members, value.keys(), path)
            for name, inner in value.items():
                if name in members:
                    yield from of_form(members[name].shape, inner, protocol, f"{path}.{name}")
        case ListShape():
            if protocol == "query" and not shape.serialization.get("flattened"):
                name = shape.member.serialization.get("name", "member")
                value = yield from _wrapped(value, name, path)
            yield from _numbered(value, path)
            yield from _size(shape, len(value), path)
            for inner in value.values():
                yield from of_form(shape.member, inner, protocol, f"{path}[]")
        case MapShape():
            yield from _map_of_form(shape, value, protocol, path)
        case _ if isinstance(value, str):
            yield from quoting(path, problem_of_text(shape, value), value)
        case _:
            yield path, f"has members, and is a {shape.type_name}"


def _map_of_form(
    shape: MapShape, value: Mapping[str, Any], protocol: str, path: str
) -> Iterator[Problem]:
    if not shape.serialization.get("flattened"):
        value = yield from _wrapped(value, "entry", path)
    yield from _numbered(value, path)
    key = shape.key.serialization.get("name", "key")
    content = shape.value.serialization.get("name", "value")
    for inner in value.values():
        yield from of_form(shape.key, inner.get(key), protocol, f"{path}{{key}}")
        yield from of_form(shape.value, inner.get(content), protocol, f"{path}{{}}")


def _wrapped(value: Mapping[str, Any], name: str, path: str) -> Any:
    for other in value.keys() - {name}:
        yield f"{path}.{other}", f"is written for {name}"
    return value.get(name) or {}


def _numbered(value: Mapping[str, Any], path: str) -> Iterator[Problem]:
    if sorted(value) != sorted(str(number) for number in range(1, len(value) + 1)):
        yield path, f"is numbered {', '.join(value)}"


def of_xml(shape: Shape, element: Element, path: str = "") -> Iterator[Problem]:
    """Yield what is wrong with an element of XML."""
    match shape:
        case StructureShape():
            yield from _structure_of_xml(shape, element, path)
        case ListShape():
            name = shape.member.serialization.get("name", "member")
            yield from _size(shape, len(element), path)
            for child in element:
                if _tag(child) == name:
                    yield from of_xml(shape.member, child, f"{path}[]")
                else:
                    yield f"{path}.{_tag(child)}", f"is written for {name}"
        case MapShape():
            for entry in element:
                yield from _entry_of_xml(shape, entry, path)
        case _ if len(element):
            yield path, f"has members, and is a {shape.type_name}"
        case _:
            text = element.text or ""
            yield from quoting(path, problem_of_text(shape, text), text)


def _structure_of_xml(shape: StructureShape, element: Element, path: str) -> Iterator[Problem]:
    members = members_by_wire_name(shape, "xml")
    tags = [_tag(child) for child in element]
    written = [*tags, *(_attribute(name) for name in element.attrib)]
    yield from _unknown_and_missing(shape, members, written, path)
    seen = set[str]()
    for child, tag in zip(element, tags, strict=True):
        if tag not in members:
            continue
        member = members[tag].shape
        flat = member.serialization.get("flattened")
        if tag in seen and not flat:
            yield f"{path}.{tag}", "is there twice"
        seen.add(tag)
        if flat and isinstance(member, ListShape):
            yield from of_xml(member.member, child, f"{path}.{tag}[]")
        elif flat and isinstance(member, MapShape):
            yield from _entry_of_xml(member, child, f"{path}.{tag}")
        else:
            yield from of_xml(member, child, f"{path}.{tag}")
    if len(element) and (element.text or "").strip():
        yield path, "has text between its members"


def _entry_of_xml(shape: MapShape, entry: Element, path: str) -> Iterator[Problem]:
    names = (
        shape.key.serialization.get("name", "key"),
        shape.value.serialization.get("name", "value"),
    )
    for child in entry:
        if _tag(child) not in names:
            yield f"{path}.{_tag(child)}", f"is written for {' and '.join(names)}"
        else:
            inner = shape.key if _tag(child) == names[0] else shape.value
            yield from of_xml(inner, child, f"{path}{{}}")


def _tag(element: Element) -> str:
    return element.tag.rpartition("}")[2]


def _attribute(name: str) -> str:
    return f"xsi:{name.rpartition('}')[2]}" if name.startswith("{") else name


def _unknown_and_missing(
    shape: StructureShape, members: Mapping[str, Any], given: Any, path: str
) -> Iterator[Problem]:
    for name in given:
        if name not in members and name != "__type":
            yield f"{path}.{name}", "is not a member"
    present = {members[name].name for name in given if name in members}
    for wire, member in members.items():
        # An empty list that is written flat leaves no trace.
        leaves_no_trace = member.shape.serialization.get("flattened")
        if member.name in {*shape.required_members} - present and not leaves_no_trace:
            yield f"{path}.{wire}", "is required"


def _size(shape: Shape, size: int, path: str) -> Iterator[Problem]:
    yield from quoting(path, problem_of_size(shape, size))


def quoting(path: str, problem: str | None, value: Any = None) -> Iterator[Problem]:
    """Yield what is wrong with a value, if anything is."""
    if problem is not None:
        yield path, problem if value is None else f"{str(value)[:80]!r} {problem}"
