"""Bad plans that no author of rules thought of: every part of a stack, changed in every way.

Each part of each resource is removed, widened, pointed elsewhere, or set to somebody else's value,
one at a time.
"""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from .policy_forms import Document

#: Where a part of a document is.
Path = tuple[str | int, ...]
#: A value, or nothing if the part is taken away.
GONE: Any = object()

_EXPRESSION = re.compile(r"\$\{((?:data\.)?aws_[a-z0-9_]+)\.([\w-]+)\.(\w+)\}")
_QUOTED = re.compile(r'(?<==\s)"((?:[^"\\]|\\.)*)"|(?<=[\[,]\s)"((?:[^"\\]|\\.)*)"(?=\s*[,\]])')
_FOREIGN = (
    ("123456789012", "999999999999"),
    ("us-east-1", "eu-west-1"),
    ("terradask-default", "terradask-other"),
    ("terradask/default", "terradask/other"),
)


@dataclass(frozen=True)
class Mutation:
    """One change of a stack."""

    #: ``resource.aws_vpc``, ``provider.aws``: what is changed, without its name.
    of: str
    #: Which part, with ``[]`` for any item of a list; empty for the whole.
    part: str
    #: What is done to it.
    kind: str
    #: Where it is done, and the new value.
    path: Path
    value: Any

    @property
    def name(self) -> tuple[str, str, str]:
        """What makes two mutations the same."""
        return self.of, self.part, self.kind

    def applied(self, stack: Document) -> Document:
        """Return the changed stack."""
        changed: Document = _replaced(stack, self.path, self.value)
        return changed


def mutations(stack: Document) -> Iterator[Mutation]:
    """Yield every change of a stack."""
    others = {
        kind: [f"${{{kind}.{name}." for name in by_name]
        for kind, by_name in stack["resource"].items()
    }
    for section in ("resource", "data"):
        for kind, by_name in stack.get(section, {}).items():
            for name, values in by_name.items():
                whole = (section, kind, name)
                yield Mutation(f"{section}.{kind}", "", "removed", whole, GONE)
                yield Mutation(
                    f"{section}.{kind}", "", "copied", (section, kind, "copy"), {**values}
                )
                yield from _of_value(f"{section}.{kind}", whole, values, others)
    for name, blocks in stack["provider"].items():
        yield from _of_value(f"provider.{name}", ("provider", name), blocks, others)
    for name in ("backend", "required_providers"):
        yield from _of_value(
            f"terraform.{name}", ("terraform", name), stack["terraform"][name], others
        )


def _of_value(
    of: str, start: Path, value: Any, others: dict[str, list[str]], path: Path = ()
) -> Iterator[Mutation]:
    part = "".join("[]" if isinstance(step, int) else f".{step}" for step in path).strip(".")
    where = (*start, *path)

    def change(kind: str, new: Any, at: Path = where) -> Mutation:
        return Mutation(of, part, kind, at, new)

    if path:
        yield change("removed", GONE)
    if isinstance(value, dict):
        yield change("added to", "x", (*where, "unheard_of"))
        for key in sorted(value.keys() - {"//"}):
            yield from _of_value(of, start, value[key], others, (*path, key))
        return
    if isinstance(value, list):
        yield change("emptied", [])
        more = _foreign(value[0]) if isinstance(value[0], str) else {"unheard_of": "x"}
        yield change("extended", [*value, more])
        for index, inner in enumerate(value):
            yield from _of_value(of, start, inner, others, (*path, index))
        return
    for kind, new in _leaf(value, others):
        if new != value:
            yield change(kind, new)
    if isinstance(value, str):
        for inside, kind, new in _inside(value):
            if new == value:
                continue
            yield Mutation(of, f"{part}: {inside}", kind, where, new)


def _leaf(value: Any, others: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "widened", not value
    elif isinstance(value, int):
        yield "widened", value * 1000 + 1
    elif isinstance(value, str):
        yield from _of_text(value, others)


def _of_text(value: str, others: dict[str, list[str]]) -> Iterator[tuple[str, Any]]:
    found = _EXPRESSION.fullmatch(value)
    if found:
        for other in others.get(found[1], []):
            if other != f"${{{found[1]}.{found[2]}.":
                yield "pointed elsewhere", f"{other}{found[3]}}}"
                break
        yield "pointed at what isn't there", f"${{{found[1]}.unheard_of.{found[3]}}}"
    elif "data.aws_s3_object" in value:
        yield "pointed elsewhere", _swapped(value)
    elif value in ("true", "false"):
        yield "widened", "false" if value == "true" else "true"
    elif re.fullmatch(r"[0-9.]+/\d+", value):
        yield "widened", "0.0.0.0/0"
        yield "moved", "8.0.0.0/8"
    elif re.fullmatch(r"[0-9a-f:]+/\d+", value):
        yield "widened", "::/0"
    elif value.isdigit():
        yield "widened", f"{value}000"
    yield "made foreign", _foreign(value)


def _swapped(value: str) -> str:
    changed = re.sub("scheduler|worker", lambda m: _OTHER_ROLE[m[0]], value)
    return changed if changed != value else value.replace("body)", "body).zones")


_OTHER_ROLE = {"scheduler": "worker", "worker": "scheduler"}


def _foreign(value: str) -> str:
    changed = value
    for ours, theirs in _FOREIGN:
        changed = changed.replace(ours, theirs)
    return changed if changed != value else "foreign"


def _inside(text: str) -> Iterator[tuple[str, str, str]]:
    """Yield changes of a document that is written as text."""
    if text.startswith("{"):
        document = json.loads(text)
        for path, kind, new in _of_document(document, ()):
            shown = _shown(path)
            yield shown, kind, json.dumps(_replaced(document, path, new))
    elif text.startswith("${jsonencode("):
        for found in _QUOTED.finditer(text):
            old = found[1] if found[1] is not None else found[2]
            start = found.start() + 1
            new = text[:start] + _foreign(old) + text[start + len(old) :]
            yield _key_before(text, found.start()), "made foreign", new
            if old == "*" or "arn:" in old:
                wider = text[:start] + "*" + text[start + len(old) :]
                if wider != text:
                    yield _key_before(text, found.start()), "widened", wider


def _shown(path: Path) -> str:
    """Return a path in a document; all of a cluster's settings and of its locked answers are one
    part, and all its groups.
    """
    if path[0] in ("settings", "lock"):
        path = path[:1]
    if path[0] == "groups" and len(path) > 1:
        path = ("groups", 0, *path[2:])
    return ".".join("[]" if isinstance(step, int) else step for step in path)


def _key_before(text: str, at: int) -> str:
    keys = re.findall(r'"([^"\\]+)" =', text[:at])
    return str(keys[-1])


def _of_document(value: Any, path: Path) -> Iterator[tuple[Path, str, Any]]:
    if path:
        yield path, "removed", GONE
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _of_document(inner, (*path, key))
        if "Effect" in value:
            yield from _of_statement(value, path)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _of_document(inner, (*path, index))
    elif isinstance(value, str):
        yield path, "made foreign", _foreign(value)
        yield path, "widened", "*"
    elif isinstance(value, bool | int):
        yield path, "widened", not value if isinstance(value, bool) else value * 1000 + 1


def _of_statement(value: dict[str, Any], path: Path) -> Iterator[tuple[Path, str, Any]]:
    yield (*path, "Effect"), "turned", "Deny" if value["Effect"] == "Allow" else "Allow"
    for plain, negated in (("Action", "NotAction"), ("Resource", "NotResource")):
        if plain in value:
            rest = {key: inner for key, inner in value.items() if key != plain}
            yield path, f"{plain} negated", {**rest, negated: value[plain]}
    extended = {**value, "Action": [*_listed(value["Action"]), "iam:PassRole"]}
    yield path, "extended", extended
    if "Principal" in value:
        yield path, "opened", {**value, "Principal": "*"}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _replaced(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """Return a document with something else in one place; all other parts are the same objects."""
    changed, (step, *rest) = copy.copy(value), path
    if rest:
        changed[step] = _replaced(value[step], rest, new)
    elif new is GONE:
        del changed[step]
    else:
        changed[step] = new
    return changed
