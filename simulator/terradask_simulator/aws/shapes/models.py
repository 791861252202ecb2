"""botocore's models of the services, in one or more releases, and the operation of a request."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import UnknownServiceError
from botocore.loaders import Loader
from botocore.model import OperationModel, ServiceModel, Shape, StructureShape

from terradask_simulator.aws.iam.operation import Operation

__all__ = ["Models", "Named", "members_by_wire_name", "models_in", "operation_of"]

#: The prefix of a service's actions -> botocore's name of it, if they differ.
_SERVICES = {"servicequotas": "service-quotas", "tag": "resourcegroupstaggingapi"}

_LABEL = re.compile(r"\{[^}]+\}")


@dataclass(frozen=True)
class Named:
    """A member by the name that it has on the wire."""

    name: str
    shape: Shape


class Models:
    """The models of botocore's installed release, then those in another ``data`` folder, if any."""

    def __init__(self, folder: str = "") -> None:
        self._loaders = [Loader()]
        if folder:
            self._loaders.append(
                Loader(extra_search_paths=[folder], include_default_search_paths=False)
            )
        self._known: dict[str, list[ServiceModel]] = {}

    def of(self, service: str) -> list[ServiceModel]:
        """Return each release's model of the service with a prefix of actions; none where botocore
        doesn't know it.
        """
        name = _SERVICES.get(service, service)
        if name not in self._known:
            self._known[name] = [
                model for loader in self._loaders if (model := _service(loader, name)) is not None
            ]
        return self._known[name]


#: The models for all who ask for the same.
models_in = functools.cache(Models)


def _service(loader: Loader, name: str) -> ServiceModel | None:
    try:
        return ServiceModel(loader.load_service_model(name, "service-2"), name)
    except (UnknownServiceError, ValueError):
        return None


def operation_of(model: ServiceModel, operation: Operation) -> OperationModel | None:
    """Return the operation of a request, or None if the model has no such operation."""
    if operation.protocol != "rest":
        known = operation.name in model.operation_names
        return model.operation_model(operation.name) if known else None
    bucket, _, key = operation.path.lstrip("/").partition("/")
    fits = {
        name: fit
        for name, route in _routes(model).items()
        if (fit := route.fit(operation, bool(bucket), bool(key))) is not None
    }
    return model.operation_model(max(fits, key=fits.__getitem__)) if fits else None


@dataclass(frozen=True)
class _Route:
    """A request's properties that make it an operation of a REST service."""

    method: str
    bucket: bool
    key: bool
    query: tuple[tuple[str, str], ...]
    parameters: frozenset[str]
    headers: frozenset[str]

    def fit(self, operation: Operation, bucket: bool, key: bool) -> int | None:
        """Return how much of a request it explains, or None if it isn't this operation."""
        given = operation.parameters
        if (
            (self.method, self.bucket, self.key) != (operation.method, bucket, key)
            or any(
                name not in given or (value and given[name] != value) for name, value in self.query
            )
            or not self.parameters <= given.keys()
            or not self.headers <= operation.headers.keys()
        ):
            return None
        return 2 * len(self.query) + len(self.parameters) + len(self.headers)


@functools.cache
def _routes(model: ServiceModel) -> dict[str, _Route]:
    operations = {name: model.operation_model(name) for name in model.operation_names}
    return {name: _route(one) for name, one in operations.items() if not one.deprecated}


def _route(one: OperationModel) -> _Route:
    path, _, query = one.http["requestUri"].partition("?")
    given = [part.partition("=") for part in query.split("&") if part]
    required: dict[str, set[str]] = {}
    if one.input_shape is not None:
        for name in one.input_shape.required_members:
            how = one.input_shape.members[name].serialization
            required.setdefault(how.get("location", ""), set()).add(how.get("name", name))
    return _Route(
        one.http["method"],
        "{Bucket}" in path,
        len(_LABEL.findall(path)) > 1,
        tuple((name, value) for name, _, value in given if name != "x-id"),
        frozenset(required.get("querystring", ())),
        frozenset(name.lower() for name in required.get("header", ())),
    )


@functools.cache
def members_by_wire_name(shape: StructureShape, protocol: str) -> dict[str, Named]:
    """Return a structure's members by their names in a body.

    ``protocol`` is ``ec2-request``, ``query``, ``json`` or ``xml``.
    """
    return {
        _wire_name(member.serialization, name, protocol): Named(name, member)
        for name, member in shape.members.items()
        if member.serialization.get("location") is None
    }


def _wire_name(how: dict[str, Any], name: str, protocol: str) -> str:
    written: str = how.get("name", name)
    if protocol == "ec2-request":
        return str(how.get("queryName") or written[0].upper() + written[1:])
    return written
