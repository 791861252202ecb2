"""Find values that change alike in many resources of several plans, so that a report has them once.
Pure.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from terradask._common.naming import counted
from terradask._plans.documents import DocumentChange
from terradask._plans.policy.values import AttributeChange, top_level
from terradask._plans.summary import Change, PlanSummary, values_beside_documents

#: From this number of resources on, an equal change is written once.
_MANY = 3
#: A tag of the resource, of what a launch template makes, and of an Auto Scaling group.
_TAG = re.compile(
    r"(?:tag_specifications\[\d+\]\.tags\.|tags\.)(?P<key>.+)|tag\.(?P<own>.+)\.value"
)
#: That instances get a new tag of their Auto Scaling group, as all tags here.
_PROPAGATED = re.compile(r"(tag\..+)\.propagate_at_launch")
#: The last index in a path.
_INDEX = re.compile(r"\[\d+\](?!.*\[\d+\])")
#: Digits of a document's hash in a report.
_DIGITS = 12


@dataclass(frozen=True)
class ChangeIn:
    """A change in one of several stacks."""

    stack: str
    change: Change


@dataclass(frozen=True)
class EqualChange:
    """Values that change alike in many resources."""

    values: tuple[AttributeChange, ...]
    #: The change of each resource, with all its values.
    changes: tuple[ChangeIn, ...]

    @property
    def by_stack(self) -> Mapping[str, list[str]]:
        """Stack -> the addresses of its resources."""
        found: dict[str, list[str]] = {}
        for one in self.changes:
            found.setdefault(one.stack, []).append(one.change.address)
        return found


@dataclass(frozen=True)
class Gathered:
    """The changes of several plans.

    Parameters
    ----------
    equal
        The values that change alike in many resources.
    rest
        The other values of each resource; those of which only values known after the apply are
        left beside an equal change aren't in it.
    """

    equal: tuple[EqualChange, ...]
    rest: tuple[ChangeIn, ...]


def gather(
    summaries: Iterable[PlanSummary], actions: Iterable[str], *, least: int = _MANY
) -> Gathered:
    """Gather the changes with these actions. Values of at least so many resources are taken out of
    each of them, and a resource of which nothing is left is left out.
    """
    wanted = frozenset(actions)
    every = [
        ChangeIn(summary.stack, joined_lists(_tags_once(change)))
        for summary in summaries
        for change in summary.changes
        if change.action in wanted
    ]
    return _gathered(every, least)


def gather_drift(summaries: Iterable[PlanSummary]) -> Gathered:
    """Gather what was changed outside Terraform in the same way, with each entry of a list."""
    every = [ChangeIn(s.stack, _tags_once(change)) for s in summaries for change in s.drift]
    return _gathered(every, _MANY)


def _gathered(every: Sequence[ChangeIn], least: int) -> Gathered:
    found: dict[str, AttributeChange] = {}
    places: dict[str, dict[int, None]] = {}
    for at, one in enumerate(every):
        for value in values_beside_documents(one.change):
            if value.known:
                found.setdefault(_key(value), replace(value, path=common_path(value.path)))
                places.setdefault(_key(value), {})[at] = None
    many = {key for key, ats in places.items() if len(ats) >= least}
    together: dict[tuple[int, ...], list[AttributeChange]] = {}
    for key in sorted(many, key=lambda key: found[key].path):
        together.setdefault(tuple(places[key]), []).append(found[key])
    equal = [
        EqualChange(tuple(values), tuple(every[at] for at in ats))
        for ats, values in together.items()
    ]
    rest = []
    for one in every:
        left = ChangeIn(one.stack, _without(one.change, many))
        is_known = left.change.documents or any(a.known for a in left.change.attributes)
        is_equal = any(_key(a) in many for a in one.change.attributes if a.known)
        if is_known or not is_equal:
            rest.append(left)
    return Gathered(
        tuple(sorted(equal, key=lambda one: (-len(one.changes), one.values[0].path))), tuple(rest)
    )


def counted_resources(changes: Sequence[ChangeIn], written: Callable[[str], str] = str) -> str:
    """Return the number of resources, with their type, as `written`, if all are of one."""
    types = {one.change.type for one in changes}
    return counted(
        len(changes), f"{written(types.pop())} resource" if len(types) == 1 else "resource"
    )


def common_path(path: str) -> str:
    """Return a path under which equal changes of tags are one."""
    tag = _TAG.fullmatch(path)
    return f"tags.{tag['key'] or tag['own']}" if tag else path


def _tags_once(change: Change) -> Change:
    """Return a change in which an equal tag is written once."""
    paths = {value.path for value in change.attributes}
    kept: dict[str, AttributeChange] = {}
    for value in change.attributes:
        own = _PROPAGATED.fullmatch(value.path)
        # In drift, an empty tag has no value beside it.
        if own and f"{own[1]}.value" in paths and (value.before, value.after) == (None, True):
            continue
        path = common_path(value.path) if value.known else value.path
        kept.setdefault(_key(value), replace(value, path=path))
    return replace(change, attributes=tuple(kept.values()))


def joined_lists(change: Change) -> Change:
    """Return a change in which the known values that differ only in their last index are one, with
    lists before and after.
    """
    documents = {document.path for document in change.documents}
    alike: dict[str, list[AttributeChange]] = {}
    for value in change.attributes:
        is_whole = top_level(value.path) in documents or _TAG.fullmatch(value.path)
        joins = value.known and not is_whole
        path = _INDEX.sub("[*]", value.path) if joins else value.path
        alike.setdefault(path, []).append(value)
    attributes = tuple(
        _joined(path, values) if "[*]" in path and len(values) > 1 else replace(one, path=path)
        for path, values in alike.items()
        for one in (values if "[*]" not in path else values[:1])
    )
    return replace(change, attributes=attributes)


def _joined(path: str, values: Sequence[AttributeChange]) -> AttributeChange:
    values = sorted(values, key=lambda value: int(_INDEX.findall(value.path)[-1].strip("[]")))
    sides = ([value.before for value in values], [value.after for value in values])
    before, after = ([one for one in side if one is not None] for side in sides)
    forces = any(value.forces_replacement for value in values)
    return AttributeChange(path, before or None, after, forces_replacement=forces)


def _key(value: AttributeChange) -> str:
    return json.dumps(
        [common_path(value.path), value.before, value.after, value.known, value.forces_replacement]
    )


def _without(change: Change, keys: frozenset[str] | set[str]) -> Change:
    kept = tuple(value for value in change.attributes if _key(value) not in keys)
    return replace(change, attributes=kept)


@dataclass(frozen=True)
class SharedDocument:
    """A document's lines that one or several resources have."""

    #: Stack and address of each, with the attribute.
    places: tuple[tuple[str, str, str], ...]
    document: DocumentChange
    #: An earlier document from which it differs only a little, and how.
    like: str | None = None
    difference: tuple[str, ...] = ()

    @property
    def digest(self) -> str:
        """The first digits of the SHA-256 of its lines."""
        return digest_of(self.document)


def digest_of(document: DocumentChange) -> str:
    """Return the first digits of the SHA-256 of a document's lines."""
    return hashlib.sha256("\n".join(document.lines).encode()).hexdigest()[:_DIGITS]


def shared_documents(changes: Sequence[ChangeIn]) -> list[SharedDocument]:
    """Return each document once, with all places of equal ones; later ones that are much like an
    earlier one of the same attribute only as a difference from it.
    """
    places: dict[str, list[tuple[str, str, str]]] = {}
    first: dict[str, DocumentChange] = {}
    for one in changes:
        for document in one.change.documents:
            digest = digest_of(document)
            first.setdefault(digest, document)
            places.setdefault(digest, []).append((one.stack, one.change.address, document.path))
    return list(_compared(first, places))


def _compared(
    first: Mapping[str, DocumentChange], places: Mapping[str, list[tuple[str, str, str]]]
) -> Iterator[SharedDocument]:
    import difflib

    models: dict[str, tuple[str, list[str]]] = {}
    for digest, document in first.items():
        lines = [line for line in document.lines if not line.startswith("@@")]
        like: str | None = None
        difference: tuple[str, ...] = ()
        if document.path in models:
            name, model = models[document.path]
            found = list(difflib.unified_diff(model, lines, lineterm="", n=0))[2:]
            # Each of its lines already begins with what the plan does to it.
            if len(found) < len(lines) // 3:
                like = name
                difference = tuple(
                    line if line.startswith("@@") else line[0] + line[2:] for line in found
                )
        if like is None:
            models[document.path] = (digest, lines)
        yield SharedDocument(tuple(places[digest]), document, like, difference)
