"""Find where two configurations, or two documents, differ."""

from __future__ import annotations

import json
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from terradask._policy.document import Unknown, held_document
from terradask._policy.masking import SENSITIVE, in_environment, masked_text, secret_name
from terradask._policy.values import child_path
from terradask_modules.iam import listed

#: Longer values aren't shown.
_SHOWN_CHARACTERS = 80


@dataclass(frozen=True)
class Difference:
    """One part that differs."""

    #: Where it is, such as ``tags.team``.
    path: str
    #: `expected`, `given`: the values; None if there is none.
    expected: Any
    given: Any

    def __str__(self) -> str:
        expected, given = self._shown(self.expected), self._shown(self.given)
        if self.given is None:
            return f"leaves out {self.path}, which terradask sets to {expected}"
        return f"sets {self.path} to {given}, where terradask sets {expected}"

    def _shown(self, value: Any) -> str:
        """Return a value as a finding shows it, without secrets."""
        if value is None:
            return "nothing"
        parts = re.split(r"[.\[\]]+", self.path)
        if secret_name(parts[-1]) or in_environment(parts, value):
            return SENSITIVE
        text = value if isinstance(value, str) else json.dumps(value, default=_template)
        if len(text) > _SHOWN_CHARACTERS:
            return f"something of {len(text)} characters"
        return masked_text(text)


def differences(
    expected: Any,
    given: Any,
    path: str = "",
    same: Callable[[Any, Any], bool] = operator.eq,
) -> Iterator[Difference]:
    """Yield each part in which a value differs from the expected one.

    A list's single item is the same without the list, an empty list is none, and of JSON the parts
    are compared. ``same`` compares what is neither a mapping nor a list.
    """
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


def in_order(value: Any) -> Any:
    """Return a value with its lists in one order, for documents in which none means anything."""
    if isinstance(value, Mapping):
        return {name: in_order(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return sorted(map(in_order, value), key=partial(json.dumps, sort_keys=True))
    return value


def _template(value: Unknown) -> str:
    return value.template or ", ".join(value.references)
