"""The input of the checks: a plan or a synthesised stack, with unknown values marked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from terradask._common.plan_modules import configured_resources
from terradask._plans.policy.complete_plan import INDEX, check_complete
from terradask._plans.policy.hcl import NotLiteral, encoded
from terradask._plans.policy.scope import Scope, WorkspaceRules, scope_of
from terradask_modules.errors import InvalidInput
from terradask_modules.iam import listed

_REFERENCE = re.compile(r"\b((?:data\.[a-z][a-z0-9_]*|[a-z][a-z0-9]*_[a-z0-9_]+)\.[A-Za-z_][\w-]*)")
#: Meta-arguments in a plan's JSON that change a resource's type or behaviour.
_META = {
    "provisioners": "provisioner",
    "count_expression": "count",
    "for_each_expression": "for_each",
}


@dataclass(frozen=True)
class Unknown:
    """A value that Terraform knows only after the apply."""

    #: Its source resources, such as ``aws_security_group.worker``.
    references: tuple[str, ...] = ()
    #: Its expression, if it is a single string: ``${aws_security_group.worker.id}``.
    template: str | None = None


@dataclass(frozen=True)
class Resource:
    """A resource or a data source in its state after the plan."""

    address: str
    type: str
    name: str
    #: Its attributes; parts of them may be `Unknown`.
    values: Mapping[str, Any]
    #: Terraform's marks of sensitivity, in the shape of the values.
    marks: Any = None
    #: The attributes that the configuration sets; others in `values` come from the provider.
    written: frozenset[str] = frozenset()
    #: The configuration, with expressions as `Unknown`; None if the document has none.
    configured: Mapping[str, Any] | None = None

    @property
    def configured_as(self) -> str:
        """The address without the keys of ``count`` and ``for_each``, as references write it."""
        return INDEX.sub("", self.address)


@dataclass(frozen=True)
class RoleRules:
    """The settings' requirements for every role."""

    #: ARN of the required permissions boundary; without one, all roles have the same, or none.
    permissions_boundary: str | None = None
    #: The required prefix of its name.
    name_prefix: str = ""


@dataclass(frozen=True)
class PlanDocument:
    """The input of the checks."""

    #: The resources after the plan.
    resources: tuple[Resource, ...] = ()
    #: The resources before the plan, except those that it forgets.
    before: tuple[Resource, ...] = ()
    data: tuple[Resource, ...] = ()
    #: Value and sensitivity by name.
    outputs: Mapping[str, tuple[Any, bool]] = field(default_factory=dict)
    providers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    role_rules: RoleRules = RoleRules()
    #: Whether the settings allow rules to open ports to the whole internet.
    open_to_anywhere: bool = False
    #: The other workspace settings.
    rules: WorkspaceRules = field(default_factory=WorkspaceRules)
    source: Mapping[str, Any] = field(default_factory=dict)
    #: The stack synthesised from the settings and answers; None if unknown.
    expected: Mapping[str, Any] | None = None

    @cached_property
    def scope(self) -> Scope:
        """The workspace of the plan."""
        return scope_of(self.resources, self.data, self.rules)

    def of(self, *types: str) -> Iterator[Resource]:
        """Yield the resources of these types."""
        return (resource for resource in self.resources if resource.type in types)

    def find(self, value: Any, kind: str) -> Resource | None:
        """Return the resource of a type that a value references, or whose id it is."""
        for resource in self.of(kind):
            if isinstance(value, Unknown):
                if resource.configured_as in value.references:
                    return resource
            elif value and value in (resource.values.get("id"), resource.values.get("arn")):
                return resource
        return None


def read(document: Mapping[str, Any]) -> PlanDocument:
    """Read a plan's JSON, or a stack's ``cdk.tf.json``. Raises `InvalidInput`."""
    if is_plan(document):
        return _read_plan(document)
    if "terraform" in document or "resource" in document:
        return _read_stack(document)
    raise InvalidInput(
        "policy can't be checked: the document is not a plan",
        given=", ".join(sorted(map(str, document))[:6]) or "an empty document",
        allowed="the JSON of terraform show -json PLAN, or a synthesised cdk.tf.json",
    )


def is_plan(document: Mapping[str, Any]) -> bool:
    """Return whether a document is a plan's JSON, as ``terraform show`` writes it."""
    return "format_version" in document and (
        "planned_values" in document or "resource_changes" in document
    )


def block(value: Any) -> Mapping[str, Any]:
    """Return a block that may be written as one or as a list of one; empty if there is none."""
    first = next(iter(listed(value)), None)
    return first if isinstance(first, Mapping) else {}


def is_true(value: Any) -> bool:
    """Return whether a flag is set, as a boolean or as the provider's text."""
    return value is True or value == "true"


def held_document(value: Any) -> Any:
    """Return the document in JSON or ``jsonencode``, with unknown parts as text; None for other
    values.
    """
    text = value.template if isinstance(value, Unknown) else value
    try:
        return encoded(text) if isinstance(text, str) else None
    except NotLiteral:
        return None


def written_document(item: Resource) -> Mapping[str, Any]:
    """Return the document of an object in the workspace's bucket, or an empty one."""
    held = held_document(item.values.get("content"))
    return held if isinstance(held, Mapping) else {}


# ---- the plan's JSON -----------------------------------------------------------------------------


def _read_plan(document: Mapping[str, Any]) -> PlanDocument:
    configured = {
        prefix + entry["address"]: (entry.get("expressions") or {}, prefix, _meta_arguments(entry))
        for prefix, entry in configured_resources(document)
    }
    check_complete(document, configured)
    resources, before = [], []
    for entry in document.get("resource_changes") or []:
        change = entry.get("change") or {}
        if entry.get("mode") != "managed":
            continue
        of = partial(Resource, str(entry["address"]), entry["type"], str(entry["name"]))
        if change.get("before") is not None and list(change["actions"]) != ["forget"]:
            before.append(of(change["before"], change.get("before_sensitive")))
        if change.get("after") is None or list(change["actions"]) in (["delete"], ["forget"]):
            continue
        known = configured.get(INDEX.sub("", str(entry["address"])))
        expressions, module, meta = known or ({}, "", {})
        resources.append(
            of(
                _merged(change["after"], change.get("after_unknown"), expressions, module),
                change.get("after_sensitive"),
                frozenset(expressions),
                {**_expression(expressions, module), **meta} if known else None,
            )
        )
    data = tuple(
        _source(address, expressions, module, meta)
        for address, (expressions, module, meta) in configured.items()
        if address.removeprefix(module).startswith("data.")
    )
    outputs = (document.get("planned_values") or {}).get("outputs") or {}
    providers = (document.get("configuration") or {}).get("provider_config") or {}
    return PlanDocument(
        source=document,
        resources=tuple(resources),
        before=tuple(before),
        data=data,
        outputs={
            name: (entry.get("value"), entry.get("sensitive") is True)
            for name, entry in outputs.items()
        },
        providers={
            name: _expression(entry.get("expressions") or {}, "")
            for name, entry in providers.items()
        },
    )


def _source(
    address: str, expressions: Mapping[str, Any], module: str, meta: Mapping[str, Any]
) -> Resource:
    kind, _, name = address.removeprefix(module).removeprefix("data.").partition(".")
    values = _expression(expressions, module)
    return Resource(address, kind, name, values, configured={**values, **meta})


def _meta_arguments(entry: Mapping[str, Any]) -> dict[str, Any]:
    return {name: True for key, name in _META.items() if entry.get(key)}


def _merged(after: Any, unknown: Any, expression: Any, module: str) -> Any:
    """Return values in which unknown ones carry their sources."""
    if unknown is True:
        return _unknown(expression, module)
    if isinstance(after, Mapping) or isinstance(unknown, Mapping):
        values, marks = (side if isinstance(side, Mapping) else {} for side in (after, unknown))
        nested = block(expression)
        return {
            key: _merged(values.get(key), marks.get(key), nested.get(key), module)
            for key in {**values, **marks}
        }
    if isinstance(after, list) and isinstance(unknown, list):
        each_nested = expression if isinstance(expression, list) else []
        indices = range(max(len(after), len(unknown)))
        return [
            _merged(
                _at(after, index),
                _at(unknown, index),
                _at(each_nested, index) or expression,
                module,
            )
            for index in indices
        ]
    return after


def _at(values: Sequence[Any], index: int) -> Any:
    return values[index] if index < len(values) else None


def _unknown(expression: Any, module: str) -> Any:
    if not isinstance(expression, Mapping):
        references = tuple(
            sorted({name for each in listed(expression) for name in _references(each, module)})
        )
        return Unknown(references)
    constant = expression.get("constant_value")
    if isinstance(constant, list):
        return [
            Unknown(_named_in(item, module), item) if isinstance(item, str) else item
            for item in constant
        ]
    return Unknown(
        tuple(_references(expression, module)), constant if isinstance(constant, str) else None
    )


def _references(expression: Any, module: str) -> list[str]:
    if not isinstance(expression, Mapping):
        return []
    return list(
        dict.fromkeys(
            name for text in expression.get("references") or [] for name in _named_in(text, module)
        )
    )


def _named_in(text: str, module: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(module + name for name in _REFERENCE.findall(text)))


def _expression(expression: Any, module: str) -> Any:
    """Return a value of the configuration, for documents without a plan."""
    if isinstance(expression, list):
        return [_expression(item, module) for item in expression]
    if not isinstance(expression, Mapping):
        return expression
    if "constant_value" in expression:
        return _from_text(expression["constant_value"], module)
    if "references" in expression:
        return Unknown(tuple(_references(expression, module)))
    return {key: _expression(inner, module) for key, inner in expression.items()}


# ---- a synthesised stack -------------------------------------------------------------------------


def _read_stack(document: Mapping[str, Any]) -> PlanDocument:
    outputs = document.get("output") or {}
    providers = document.get("provider") or {}
    return PlanDocument(
        source=document,
        resources=tuple(_synthesised(document.get("resource") or {}, "")),
        data=tuple(_synthesised(document.get("data") or {}, "data.")),
        outputs={
            name: (_from_text(entry.get("value"), ""), is_true(entry.get("sensitive")))
            for name, entry in outputs.items()
        },
        providers={
            name if index == 0 else f"{name}.{index}": _from_text(entry, "")
            for name, entries in providers.items()
            for index, entry in enumerate(listed(entries))
        },
    )


def _synthesised(types: Mapping[str, Any], prefix: str) -> Iterator[Resource]:
    for kind, by_name in types.items():
        for name, values in by_name.items():
            own = {key: value for key, value in values.items() if key != "//"}
            held = _from_text(own, "")
            yield Resource(
                f"{prefix}{kind}.{name}",
                kind,
                name,
                held,
                written=frozenset(own),
                configured=held,
            )


def _from_text(value: Any, module: str) -> Any:
    """Return a configuration's value; strings with ``${}`` are unknown."""
    if isinstance(value, str):
        return Unknown(_named_in(value, module), value) if "${" in value else value
    if isinstance(value, Mapping):
        return {key: _from_text(inner, module) for key, inner in value.items()}
    if isinstance(value, list):
        return [_from_text(inner, module) for inner in value]
    return value
