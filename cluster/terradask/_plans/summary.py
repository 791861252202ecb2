"""A plan as typed, frozen data: changes, their values, and dangers for a reviewer.

Pure: from the JSON of ``terraform show -json PLAN`` to `PlanSummary`. The JSON has secrets in plain
text; the summary has none.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from terradask._common.naming import counted
from terradask._common.plan_modules import configured_resources, expressions_of
from terradask._plans.dangers import (
    KNOWN_LATER,
    POLICIES,
    Danger,
    dangers_of,
    new_roles,
    openings_before,
    widened,
)
from terradask._plans.documents import DocumentChange, document_changes
from terradask._plans.drift import drift_dangers, real_drift
from terradask._plans.egress_dangers import egress_dangers
from terradask._plans.policy.complete_plan import UNREADABLE, unreadable_plan
from terradask._plans.policy.values import AttributeChange, attribute_changes, top_level
from terradask._terraform.program import TERRAFORM, program_of, without_registry

SUMMARY_FORMAT = 1

_IMPORTED = "it exists, and is imported into the state"

_REASONS = {
    "replace_because_cannot_update": "the provider can't change it in place",
    "replace_because_tainted": "its creation failed halfway",
    "replace_by_request": "requested",
    "replace_by_triggers": "something it depends on is replaced",
    "delete_because_no_resource_config": "it is no longer in the configuration",
    "delete_because_no_module": "its module is no longer in the configuration",
    "delete_because_each_key": "its key is no longer in the configuration",
    "delete_because_count_index": "its index is no longer in the configuration",
    "read_because_config_unknown": "it depends on values known after the apply",
    "read_because_dependency_pending": "something it depends on changes",
}


@dataclass(frozen=True)
class Change:
    """What happens to one resource.

    Parameters
    ----------
    address
        The resource, as Terraform names it.
    type
        Its type, such as ``aws_autoscaling_group``.
    action
        ``create``, ``import``, ``update``, ``replace``, ``delete``, ``forget``, ``read`` or
        ``no-op``. What is imported and changed as well is ``update`` or ``replace``, with the
        import as its reason.
    reason
        Why, if Terraform gives a reason.
    attributes
        The changed values.
    documents
        The documents among them, policies and user data, as line diffs.
    follows
        The resource from whose change its own follows: a replaced one, or a rule that admits all
        that this one did. None otherwise.
    """

    address: str
    type: str
    action: str
    reason: str | None = None
    attributes: tuple[AttributeChange, ...] = ()
    documents: tuple[DocumentChange, ...] = ()
    follows: str | None = None

    @property
    def replaced_because_of(self) -> tuple[str, ...]:
        """The paths of the values that force a replacement."""
        return tuple(a.path for a in self.attributes if a.forces_replacement)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for JSON output."""
        return {
            "address": self.address,
            "type": self.type,
            "action": self.action,
            "reason": self.reason,
            "replaced_because_of": list(self.replaced_because_of),
            "follows": self.follows,
            "attributes": list(map(asdict, self.attributes)),
            "documents": [{**asdict(one), "lines": list(one.lines)} for one in self.documents],
        }


@dataclass(frozen=True)
class Counts:
    """The number of changed resources, by action; a replacement counts once."""

    create: int = 0
    update: int = 0
    replace: int = 0
    delete: int = 0
    imports: int = 0

    @property
    def total(self) -> int:
        """The total."""
        return self.create + self.update + self.replace + self.delete + self.imports

    @property
    def text(self) -> str:
        """The counts in words, such as ``3 to create, 1 to destroy``."""
        words = {
            "create": "to create",
            "update": "to update",
            "replace": "to replace",
            "delete": "to destroy",
            "imports": "to import",
        }
        return (
            ", ".join(f"{number} {words[name]}" for name, number in asdict(self).items() if number)
            or "no changes"
        )


@dataclass(frozen=True)
class PlanSummary:
    """The effects of a saved plan.

    Parameters
    ----------
    stack
        The stack: ``network``, or a cluster's name.
    changes
        What happens to each resource; unchanged resources are left out.
    drift
        What was changed outside Terraform since its last run.
    dangers
        Dangers for a reviewer.
    plan_hash
        SHA-256 of the plan's file.
    created_at
        When it was made, UTC, in ISO 8601.
    terraform_version
        The version of Terraform, or of the program in `program`.
    providers
        Version by provider.
    outputs
        The stack's outputs that change.
    program
        ``Terraform`` or ``OpenTofu``.
    drift_dangers
        Dangers of what was changed outside Terraform.
    """

    stack: str
    changes: tuple[Change, ...]
    drift: tuple[Change, ...]
    dangers: tuple[Danger, ...]
    plan_hash: str
    created_at: str
    terraform_version: str
    providers: Mapping[str, str] = field(default_factory=dict)
    outputs: tuple[AttributeChange, ...] = ()
    program: str = TERRAFORM.name
    drift_dangers: tuple[Danger, ...] = ()

    @property
    def counts(self) -> Counts:
        """The numbers of changed resources."""
        actions = [change.action for change in self.changes]
        return Counts(
            *(
                actions.count(action)
                for action in ("create", "update", "replace", "delete", "import")
            )
        )

    @property
    def changed(self) -> bool:
        """Whether applying the plan would change a resource or the state."""
        return self.counts.total > 0 or bool(self.outputs)

    @property
    def headline(self) -> str:
        """The counts of changes in one line."""
        return f"{self.stack}: {effect_of(self.counts, len(self.outputs))}"

    def as_dict(self) -> dict[str, Any]:
        """Return the summary as JSON data, format 1. The same plan always gives the same data."""
        return {
            "format": SUMMARY_FORMAT,
            "stack": self.stack,
            "plan_sha256": self.plan_hash,
            "created_at": self.created_at,
            "program": self.program,
            "terraform_version": self.terraform_version,
            "providers": dict(sorted(self.providers.items())),
            "counts": asdict(self.counts),
            "dangers": list(map(asdict, self.dangers)),
            "changes": [change.as_dict() for change in self.changes],
            "drift": [change.as_dict() for change in self.drift],
            "drift_dangers": list(map(asdict, self.drift_dangers)),
            "outputs": list(map(asdict, self.outputs)),
        }


def effect_of(counts: Counts, outputs: int) -> str:
    """Return the counts in words; if there are none, the number of changed outputs."""
    return counts.text if counts.total or not outputs else f"{counted(outputs, 'output')} to update"


def values_beside_documents(change: Change) -> tuple[AttributeChange, ...]:
    """Return the values that no document shows as a diff."""
    shown = {document.path for document in change.documents}
    return tuple(a for a in change.attributes if top_level(a.path) not in shown)


def summarise(document: Mapping[str, Any], *, stack: str, plan_hash: str) -> PlanSummary:
    """Read a plan's JSON. Raises `InvalidInput`."""
    try:
        return _summary(document, stack, plan_hash)
    except UNREADABLE as error:
        raise unreadable_plan(error) from error


def _summary(document: Mapping[str, Any], stack: str, plan_hash: str) -> PlanSummary:
    changes: list[Change] = []
    dangers: list[Danger] = []
    configured = expressions_of(document)
    resources = document.get("resource_changes", [])
    roles, open_before = new_roles(resources), openings_before(resources)
    for resource in resources:
        change = _change(resource, configured)
        # Data sources are read at every plan; only those read at the apply matter.
        if change.action == "no-op" or (change.action == "read" and not change.reason):
            continue
        changes.append(change)
        because = ", ".join(change.replaced_because_of) or None
        dangers.extend(dangers_of(resource, change.action, because, roles, open_before))
    dangers.extend(egress_dangers(document))
    follows = widened(resources) | _followed(
        document,
        {
            change.address: [a for a in change.attributes if a.forces_replacement]
            for change in changes
            if change.action == "replace"
        },
    )
    changes = [replace(change, follows=follows.get(change.address)) for change in changes]
    dangers = [_following(danger, follows) for danger in dangers]
    drifted = real_drift(document)
    order = {
        action: index
        for index, action in enumerate(
            ("delete", "replace", "update", "import", "create", "forget", "read")
        )
    }
    changes.sort(key=lambda change: (order.get(change.action, 9), change.address))
    kinds = ("destroy", "replace", "ingress", "egress", "iam", "script")
    severity = {kind: index for index, kind in enumerate(kinds)}
    weighed = drift_dangers(document, drifted)
    for found in (dangers, weighed):
        found.sort(key=lambda danger: (severity[danger.kind], danger.address, danger.text))
    return PlanSummary(
        stack=stack,
        changes=tuple(changes),
        drift=_drift(drifted),
        dangers=tuple(dangers),
        drift_dangers=tuple(weighed),
        plan_hash=plan_hash,
        created_at=str(document.get("timestamp", "")),
        terraform_version=str(document.get("terraform_version", "")),
        providers=_providers(document),
        outputs=_outputs(document),
        program=program_of(
            _address(name, entry) for name, entry in _configured_providers(document).items()
        ).name,
    )


def _following(danger: Danger, follows: Mapping[str, str]) -> Danger:
    """Return a danger with what it follows from: also the policy that a successor gets anew."""
    is_own = danger.kind not in ("destroy", "replace") and not (
        danger.kind == "iam" and danger.text in {f"{name} {KNOWN_LATER}" for name in POLICIES}
    )
    return danger if is_own else replace(danger, follows=follows.get(danger.address))


def _change(resource: Mapping[str, Any], configured: Mapping[str, Collection[str]]) -> Change:
    change = _with_tags_by_key(resource)
    actions = list(change["actions"])
    action = "replace" if set(actions) == {"create", "delete"} else actions[0]
    reason = resource.get("action_reason")
    if change.get("importing"):
        reason = reason or _IMPORTED
        action = "import" if action == "no-op" else action
    attributes = (
        () if action in ("no-op", "import", "delete", "forget") else attribute_changes(change)
    )
    if action == "create":
        # Values assigned by AWS are left out; references to other new resources matter.
        named = configured.get(resource["address"].partition("[")[0], ())
        attributes = tuple(a for a in attributes if a.known or top_level(a.path) in named)
    return Change(
        address=resource["address"],
        type=resource["type"],
        action=action,
        reason=_REASONS.get(reason, reason) if reason else None,
        attributes=attributes,
        documents=document_changes(change) if action in ("create", "update", "replace") else (),
    )


def _with_tags_by_key(resource: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a change in which an Auto Scaling group's tags are a map of keys, as others' are."""
    change: Mapping[str, Any] = resource["change"]
    marks = ("after_unknown", "before_sensitive", "after_sensitive")
    tags = [(change.get(mark) or {}).get("tag") for mark in marks if change.get(mark) is not True]
    marked = any(part for each in tags for part in (each if isinstance(each, list) else [each]))
    if resource["type"] != "aws_autoscaling_group" or marked:
        return change
    sides = {side: change.get(side) for side in ("before", "after")}
    named = {side: {**values, "tag": _by_key(values)} for side, values in sides.items() if values}
    return {**change, **named} if all(one["tag"] for one in named.values()) else change


def _by_key(values: Mapping[str, Any]) -> dict[str, Any]:
    tags = [tag for tag in values.get("tag") or [] if isinstance(tag, Mapping)]
    return {
        str(tag["key"]): {name: value for name, value in tag.items() if name != "key"}
        for tag in tags
        if tag.get("key")
    }


def _drift(entries: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    found = []
    for resource in entries:
        change = _change(resource, {})
        attributes = tuple(a for a in change.attributes if a.before or a.after)
        if attributes or change.action == "delete":
            found.append(replace(change, attributes=attributes))
    return tuple(sorted(found, key=lambda change: change.address))


def _outputs(document: Mapping[str, Any]) -> tuple[AttributeChange, ...]:
    changes = {
        name: change
        for name, change in (document.get("output_changes") or {}).items()
        if change.get("actions") != ["no-op"]
    }
    sides = ("before", "after", "after_unknown", "before_sensitive", "after_sensitive")
    # As one map of values, so that an output's name is treated as an attribute's.
    return attribute_changes(
        {side: {name: change.get(side) for name, change in changes.items()} for side in sides}
    )


def _providers(document: Mapping[str, Any]) -> dict[str, str]:
    return {
        without_registry(_address(name, entry)): str(entry.get("version_constraint", ""))
        for name, entry in _configured_providers(document).items()
        if entry.get("version_constraint")
    }


def _configured_providers(document: Mapping[str, Any]) -> Mapping[str, Any]:
    return (document.get("configuration") or {}).get("provider_config") or {}


def _address(name: str, entry: Mapping[str, Any]) -> str:
    return str(entry.get("full_name", name))


# ---- replacements that follow from another resource's --------------------------------------------


def _followed(
    document: Mapping[str, Any], forced: Mapping[str, Sequence[AttributeChange]]
) -> dict[str, str]:
    """Return, for each replaced resource that follows from another one, the first of the chain.

    Parameters
    ----------
    forced
        Replaced resources, each with the values that force it.
    """
    named = _named(document)
    parents: dict[str, str] = {}
    for address, values in forced.items():
        own = named.get(address.partition("[")[0], {})
        # A value that is known changes by itself; without any, something that it names is replaced.
        causing = [top_level(value.path) for value in values if not value.known]
        attributes = causing if values else own
        references = (one for attribute in attributes for one in own.get(attribute, ()))
        parent = next((one for one in references if one in forced and one != address), None)
        if parent is not None:
            parents[address] = parent
    return {address: _first(address, parents) for address in parents}


def _first(address: str, parents: Mapping[str, str]) -> str:
    seen = {address}
    while (parent := parents.get(address)) is not None and parent not in seen:
        seen.add(parent)
        address = parent
    return address


def _named(document: Mapping[str, Any]) -> dict[str, dict[str, list[str]]]:
    """Return, by resource and attribute, the resources that the configuration names there."""
    return {
        prefix + entry["address"]: {
            attribute: [prefix + one for one in _references(expression)]
            for attribute, expression in (entry.get("expressions") or {}).items()
        }
        for prefix, entry in configured_resources(document)
    }


def _references(expression: Any) -> list[str]:
    """Return all references in an expression, also in its nested blocks, without attributes."""
    if isinstance(expression, list):
        return [one for each in expression for one in _references(each)]
    if not isinstance(expression, Mapping):
        return []
    own = expression.get("references")
    if isinstance(own, list):
        return [".".join(str(one).split(".")[:2]).partition("[")[0] for one in own]
    return [one for each in expression.values() for one in _references(each)]
