"""P8: a plan has exactly what terradask synthesises from the settings and the locked answers."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from terradask._common.masking import SENSITIVE, in_environment, masked_text, secret_name
from terradask._plans.policy.document import (
    PlanDocument,
    Resource,
    Unknown,
    block,
    held_document,
    is_plan,
    read,
)
from terradask._plans.policy.findings import PolicyFinding, error
from terradask._plans.policy.values import child_path, decoded, top_level
from terradask._terraform.program import without_registry
from terradask_modules.iam import listed

#: Longer values are abbreviated.
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Difference:
    """One difference between a plan and the expected stack."""

    #: Path of the value, such as ``tags.team``.
    path: str
    #: `expected`, `given`: the values; None if missing.
    expected: Any
    given: Any

    def __str__(self) -> str:
        expected, given = self._shown(self.expected), self._shown(self.given)
        if self.given is None:
            return f"leaves out {self.path}, which terradask sets to {expected}"
        return f"sets {self.path} to {given}, where terradask sets {expected}"

    def _shown(self, value: Any) -> str:
        """Return a value for a finding, without secrets."""
        if value is None:
            return "nothing"
        parts = re.split(r"[.\[\]]+", self.path)
        if secret_name(parts[-1]) or in_environment(parts, value):
            return SENSITIVE
        text = value if isinstance(value, str) else json.dumps(value, default=_template)
        if len(text) > _SHOWN_CHARACTERS:
            return f"a value of {len(text)} characters"
        return masked_text(text)


def differences(
    expected: Any,
    given: Any,
    path: str = "",
    same: Callable[[Any, Any], bool] = operator.eq,
) -> Iterator[Difference]:
    """Yield the differences between two values.

    A list of one item equals the item, an empty list equals none, and JSON is compared by its
    parts. ``same`` compares values that are neither mappings nor lists.
    """
    if same is operator.eq and expected == given:
        return
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys((*expected, *given)):
            inner = child_path(path, name)
            yield from differences(expected.get(name), given.get(name), inner, same)
        return
    wanted, held = listed(expected), listed(given)
    if isinstance(expected, list) or isinstance(given, list):
        if len(wanted) == len(held):
            for number, (one, other) in enumerate(zip(wanted, held, strict=True)):
                inner = path if len(wanted) == 1 else f"{path}[{number}]"
                yield from differences(one, other, inner, same)
            return
    elif len(wanted) == len(held) and all(map(same, wanted, held)):
        return
    documents = held_document(expected), held_document(given)
    are_json = all(isinstance(each, Mapping) for each in documents)
    inside = [*differences(*documents, path, same)] if are_json else []
    yield from inside or [Difference(path, expected, given)]


def with_sorted_lists(value: Any) -> Any:
    """Return a value with sorted lists, for documents whose lists have no order."""
    if isinstance(value, Mapping):
        return {name: with_sorted_lists(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted(map(with_sorted_lists, value), key=partial(json.dumps, sort_keys=True))
    return value


def _template(value: Unknown) -> str:
    return value.template or ", ".join(value.references)


_RESOURCES = frozenset({"resource", "data"})
#: The framework's metadata.
_NOTES = frozenset({"//"})
#: Attributes that plans leave out: Terraform's own checks, and the order of creation.
_UNSHOWN = frozenset({"lifecycle", "depends_on"})
_AS_MADE = "write it as terradask synthesises it, or waive P8 for this address"


def expected_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield additional, missing and different parts of a plan or a stack."""
    if document.expected is None:
        yield _finding(
            "",
            "the expected stack of these settings is unknown, so the plan can't be compared",
            "pass the stack of Workspace.synth as `expected`",
        )
        return
    ours = read(document.expected)
    yield from _resources(ours, document)
    if is_plan(document.source):
        yield from _plan_part_findings(ours, document)
    else:
        yield from _stack_findings(document.expected, document.source)


def _resources(ours: PlanDocument, theirs: PlanDocument) -> Iterator[PolicyFinding]:
    expected = {each.address: each for each in (*ours.resources, *ours.data)}
    given = (*theirs.resources, *theirs.data)
    in_plan = is_plan(theirs.source)
    unshown = _NOTES | _UNSHOWN if in_plan else _NOTES
    for resource in given:
        wanted = expected.get(resource.address)
        if wanted is None:
            yield _finding(resource.address, "isn't part of terradask's stack", "remove it")
            continue
        found = [
            *differences(
                _without_keys(wanted.configured, unshown),
                _without_keys(resource.configured, unshown),
            )
        ]
        if in_plan:
            reported = {top_level(each.path) for each in found}
            found += [each for each in _planned(wanted, resource) if each.path not in reported]
        for each in found:
            yield _finding(resource.address, str(each))
    if theirs.resources:
        for address in expected.keys() - {each.address for each in given}:
            yield _finding(address, "is missing from terradask's stack")


def _planned(wanted: Resource, planned: Resource) -> Iterator[Difference]:
    """Yield attributes whose planned value differs from the configuration."""
    configured = wanted.configured or {}
    left = listed(block(configured.get("lifecycle")).get("ignore_changes"))
    for name in configured.keys() - {*left, *_NOTES}:
        expected, given = configured[name], planned.values.get(name)
        if _is_plain(expected) and _is_plain(given) and _comparable(expected) != _comparable(given):
            yield Difference(name, expected, given)


def _is_plain(value: Any) -> bool:
    """Return whether a value is literal, without the escapes of Terraform's templates."""
    return isinstance(value, bool | int | float) or (isinstance(value, str) and "%{" not in value)


def _comparable(value: Any) -> Any:
    """Return a value in a normal form: flags as text, JSON parsed."""
    held = decoded(value)
    return with_sorted_lists(held) if held is not value else str(value).lower()


def _without_keys(values: Any, names: Iterable[str]) -> dict[str, Any]:
    return {name: value for name, value in (values or {}).items() if name not in names}


def _plan_part_findings(ours: PlanDocument, theirs: PlanDocument) -> Iterator[PolicyFinding]:
    configuration = theirs.source.get("configuration") or {}
    for name in sorted(set(configuration.get("root_module") or {}) - {"resources"}):
        yield _finding("", f"the configuration has {name}, which terradask's stacks don't have")
    required = ours.source["terraform"]["required_providers"]
    for name, entry in (configuration.get("provider_config") or {}).items():
        wanted = required.get(name, {}).get("source")
        source = without_registry(str(entry.get("full_name", wanted)))
        if source != wanted:
            yield _finding(
                f"provider.{name}", f"is a provider that terradask doesn't use: {source}"
            )
    yield from _sections("provider.", ours.providers, theirs.providers)


def _stack_findings(
    expected: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[PolicyFinding]:
    other = _RESOURCES | _NOTES
    yield from _sections("", _without_keys(expected, other), _without_keys(given, other))


def _sections(
    prefix: str, expected: Mapping[str, Any], given: Mapping[str, Any]
) -> Iterator[PolicyFinding]:
    for name in dict.fromkeys((*expected, *given)):
        address = f"{prefix}{name}"
        if name not in expected:
            yield _finding(address, "isn't part of terradask's stacks", "remove it")
        elif name not in given:
            yield _finding(address, "is missing from terradask's stacks")
        else:
            for each in differences(expected[name], given[name]):
                yield _finding(address, str(each))


def _finding(address: str, message: str, advice: str = _AS_MADE) -> PolicyFinding:
    return error(address, message, advice)
