"""Find where two configurations, or two documents, differ."""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from terradask._policy.document import Unknown
from terradask._policy.masking import masked_text
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
        if self.given is None:
            return f"leaves out {self.path}, which terradask sets to {_shown(self.expected)}"
        if self.expected is None:
            return f"sets {self.path} to {_shown(self.given)}, which terradask doesn't set"
        return (
            f"sets {self.path} to {_shown(self.given)}, where terradask sets "
            f"{_shown(self.expected)}"
        )


def differences(
    expected: Any,
    given: Any,
    path: str = "",
    same: Callable[[Any, Any], bool] = operator.eq,
) -> Iterator[Difference]:
    """Yield each part in which a value differs from the expected one. A block, or a list's single
    item, is the same with and without the list; an empty list is none.

    ``same`` compares what is neither a mapping nor a list.
    """
    if isinstance(expected, Mapping) and isinstance(given, Mapping):
        for name in dict.fromkeys((*expected, *given)):
            yield from differences(
                expected.get(name), given.get(name), child_path(path, name), same
            )
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
    yield Difference(path, expected, given)


def _shown(value: Any) -> str:
    """Return a value as a finding shows it, without secrets."""
    if isinstance(value, Unknown):
        value = value.template or ", ".join(value.references)
    text = value if isinstance(value, str) else json.dumps(value, default=_template)
    if len(text) > _SHOWN_CHARACTERS:
        return f"something of {len(text)} characters"
    return masked_text(text)


def _template(value: Unknown) -> str:
    return value.template or ", ".join(value.references)
