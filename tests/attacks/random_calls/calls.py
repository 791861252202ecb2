"""A random call that uses a right: its parameters by the service's model."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from botocore.model import ListShape, MapShape, Shape, StructureShape

from .names import Names
from .parameters import KINDS, LATER, MADE, SELDOM, USUAL, VALUES
from .rights import ApiCall, Right, calls_of

_EC2_KINDS = ("instance", "security-group", "launch-template", "security-group-rule", "subnet")
#: How deep structures go inside one another.
_DEPTH = 5


class NoValue(Exception):
    """A parameter that a call has to have and that nothing here makes: add it to the tables."""


@dataclass(frozen=True)
class Call:
    """An API call with its parameters."""

    api: ApiCall
    parameters: dict[str, Any]

    def __str__(self) -> str:
        return f"{self.api.service}:{self.api.operation} {self.parameters}"


class Caller:
    """Draws calls: names from what is there and what a right's resources match, tags that fit.

    Parameters
    ----------
    draws
        What everything is drawn from.
    names
        What there is in the account.
    tags
        The tags that make things the workspace's and the cluster's.
    document
        Returns what to write under an object's key.
    """

    def __init__(
        self,
        draws: random.Random,
        names: Names,
        tags: dict[str, str],
        document: Callable[[str], bytes],
    ) -> None:
        self._draws, self._names, self._tags, self._document = draws, names, tags, document

    def call(self, right: Right) -> Call | None:
        """Return a call that uses a right; None where `NOT_CALLED` says why."""
        apis = calls_of(right.action)
        if not apis:
            return None
        api = self._draws.choice(apis)
        return Call(api, _Drawing(self, api, right).parameters())

    def tag(self) -> tuple[str, str]:
        """Return a tag: mostly one that makes a thing the attacked cluster's."""
        strange = [
            ("mine", "x"),
            ("terradask:cluster", "ml"),
            ("terradask:workspace", "default-two"),
        ]
        return self._draws.choice([*self._tags.items(), *self._tags.items(), *strange])

    def own_tags(self) -> list[tuple[str, str]]:
        """Return tags of something new."""
        whole = list(self._tags.items())
        return whole if self._draws.random() < 0.85 else [self.tag()]


class _Drawing:
    """One call as it is drawn."""

    def __init__(self, caller: Caller, api: ApiCall, right: Right) -> None:
        self._caller, self._api, self._right = caller, api, right
        self._draws, self._names = caller._draws, caller._names
        self._object = self._names.drawn("object", right.resources, self._draws)

    def parameters(self) -> dict[str, Any]:
        shape = self._api.model.input_shape
        return {} if shape is None else self._structure(shape, self._api.operation, 0)

    def _structure(self, shape: StructureShape, name: str, depth: int) -> dict[str, Any]:
        if {"Key", "Value"} <= set(shape.members) and "Tag" in shape.name:
            key, value = self._caller.tag()
            more = {"ResourceId", "ResourceType", "PropagateAtLaunch"} & set(shape.members)
            rest = {one: self._member(shape, name, one, depth) for one in sorted(more)}
            return {**rest, "Key": key, "Value": value}
        wanted = {*shape.required_members, *USUAL.get(name, ()), *USUAL.get(shape.name, ())}
        if depth == 0:
            wanted |= self._api.given
        return {
            member: self._member(shape, name, member, depth)
            for member in shape.members
            if (member in wanted and self._is_taken(name, member, shape))
            or (member in SELDOM and self._draws.random() < 0.1)
        }

    def _is_taken(self, name: str, member: str, shape: StructureShape) -> bool:
        """Return whether a member is drawn: the demanded and names always, others mostly."""
        if member in shape.required_members or member in self._api.given:
            return True
        if any(key in KINDS for key in self._keys(shape, name, member)):
            return True
        return self._draws.random() < (0.5 if member.endswith("Size") else 0.9)

    def _keys(self, shape: StructureShape, name: str, member: str) -> tuple[str, ...]:
        whole = f"{self._api.service}.{member}"
        return f"{name}.{member}", f"{shape.name}.{member}", whole, member

    def _member(self, shape: StructureShape, name: str, member: str, depth: int) -> Any:
        keys = self._keys(shape, name, member)
        return self._value(shape.members[member], keys, depth + 1)

    def _value(self, shape: Shape, keys: Sequence[str], depth: int) -> Any:
        if isinstance(shape, ListShape):
            return self._list(shape, keys, depth)
        known = self._known(keys)
        if known is not None:
            return _as(shape.type_name, known)
        if depth > _DEPTH:
            raise NoValue(f"{self._api.operation}: {keys[0]} is too deep")
        if isinstance(shape, StructureShape):
            return self._structure(shape, shape.name, depth)
        if isinstance(shape, MapShape):
            return {}
        return self._scalar(shape, keys)

    def _known(self, keys: Sequence[str]) -> Any:
        """Return a value of the tables, None where they have none."""
        if keys[-1] == "Bucket" or (keys[-1] == "Key" and self._api.service == "s3"):
            bucket, _, key = self._object.partition("/")
            return self._bucket(bucket) if keys[-1] == "Bucket" else key
        if keys[-1] == "Body":
            return self._caller._document(self._object.partition("/")[2])
        for key in keys:
            if key in VALUES:
                return self._draws.choice(VALUES[key])
            if key in KINDS:
                return self._named(KINDS[key])
        return None

    def _bucket(self, of_object: str) -> str:
        """Return the bucket of the object, or where none is named, one of the right's own."""
        has_key = "Key" in self._api.model.input_shape.members
        drawn = self._names.drawn("bucket", self._right.resources, self._draws)
        return of_object if has_key else drawn

    def _named(self, kind: str) -> str:
        if kind == "any of ec2":
            own = [
                one.split(":")[5].split("/")[0] for one in self._right.resources if ":ec2:" in one
            ]
            kind = self._draws.choice(own or _EC2_KINDS)
            kind = "placement-group id" if kind == "placement-group" else kind
        if kind in ("new name", "schedule"):
            return f"{kind.replace(' ', '-')}-{self._draws.randrange(5)}"
        if kind == "version":
            return self._names.drawn(f"version of {self._object}", (), self._draws)
        if kind == "policy arn":
            name = self._names.drawn("policy", self._right.resources, self._draws)
            return f"arn:aws:iam::123456789012:policy/{name}"
        if kind == "log group arn":
            name = self._names.drawn("log group", self._right.resources, self._draws)
            return f"arn:aws:logs:us-east-1:123456789012:log-group:{name}"
        name = self._names.drawn(kind, self._right.resources, self._draws)
        return name.rpartition("/")[2] if kind in ("role", "instance-profile") else name

    def _list(self, shape: ListShape, keys: Sequence[str], depth: int) -> list[Any]:
        inner, made = shape.member, MADE.get(self._api.operation)
        if keys[-1] == "TagSpecifications" and made is not None:
            tags = [{"Key": key, "Value": value} for key, value in self._caller.own_tags()]
            return [{"ResourceType": kind, "Tags": tags} for kind in made]
        if keys[-1] == "Tags" and isinstance(inner, StructureShape):
            first = self._structure(inner, inner.name, depth)
            if self._api.operation.startswith("Create"):
                return [{**first, "Key": k, "Value": v} for k, v in self._caller.own_tags()]
            return [first]
        if isinstance(inner, StructureShape):
            return [self._structure(inner, inner.name, depth)]
        return [self._value(inner, keys, depth)]

    def _scalar(self, shape: Shape, keys: Sequence[str]) -> Any:
        kind = shape.type_name
        if getattr(shape, "enum", None):
            return self._draws.choice(shape.enum)
        if kind == "boolean":
            return self._draws.random() < 0.5
        if kind in ("integer", "long"):
            low = int(shape.metadata.get("min", 0))
            return min(int(shape.metadata.get("max", 100)), self._draws.choice((low, low + 1, 100)))
        if kind == "timestamp":
            return _later(self._draws)
        raise NoValue(f"{self._api.operation}: {keys[0]} ({kind})")


def _as(type_name: str, value: Any) -> Any:
    if value != LATER:
        return value
    moment = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=2)
    return int(moment.timestamp() * 1000) if type_name == "long" else moment


def _later(draws: random.Random) -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        seconds=draws.choice((2, 60, 3600))
    )
