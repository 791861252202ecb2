"""Remove a plan's secrets from texts: findings quote what is in it."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from terradask._policy.decoding import Undecodable, from_base64, layers
from terradask._policy.findings import PolicyFinding
from terradask._policy.masking import SENSITIVE, masked_text
from terradask._policy.patterns import named_texts, secret_parts
from terradask._policy.values import attribute_changes, child_path, decoded

#: Shorter ones would mask half of every text; short ones are masked as whole words.
_SHORT, _LONG = 4, 12


class Scrubber:
    """Masks a plan's secrets, and everything that looks like one."""

    def __init__(self, document: Mapping[str, Any]) -> None:
        forms = {form for secret in set(_secrets(document)) for form in _forms(secret)}
        self._longest_first = sorted(
            (form for form in forms if len(form) >= _SHORT), key=len, reverse=True
        )

    def text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        # A pattern of all of them would take longer to compile than a plan to check.
        if held := [form for form in self._longest_first if form in text]:
            text = re.sub("|".join(map(_pattern, held)), SENSITIVE, text)
        return masked_text(text)

    def finding(self, finding: PolicyFinding) -> PolicyFinding:
        """Return a finding with its texts masked."""
        return replace(
            finding,
            message=self.text(finding.message),
            advice=None if finding.advice is None else self.text(finding.advice),
        )


def _secrets(document: Mapping[str, Any]) -> Iterator[str]:
    for entry in [
        *(document.get("resource_changes") or []),
        *(document.get("resource_drift") or []),
    ]:
        change = _mapping(_mapping(entry).get("change"))
        for side in ("before", "after"):
            yield from _masked(change.get(side), change.get(f"{side}_sensitive"))
    for output in _mapping(_mapping(document.get("planned_values")).get("outputs")).values():
        if _mapping(output).get("sensitive"):
            yield from _texts(output.get("value"))
    yield from _by_name(document)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a plan; empty where it isn't what Terraform writes."""
    return value if isinstance(value, Mapping) else {}


def _masked(values: Any, marks: Any) -> Iterator[str]:
    """Yield the texts that a plan's summary masks."""
    if not isinstance(values, Mapping):
        return
    hidden = [
        change.path
        for change in attribute_changes({"before": None, "after": values, "after_sensitive": marks})
        if change.sensitive
    ]
    for path, text in _walk(values, ""):
        if any(path == each or path.startswith((f"{each}.", f"{each}[")) for each in hidden):
            yield text
            yield from _inside(text)


def _by_name(value: Any) -> Iterator[str]:
    """Yield the texts that are secrets by our own rules, at any place."""
    for _, text, by_name in named_texts(value):
        yield from [str(text)] if by_name else secret_parts(str(text))


def _inside(text: str) -> Iterator[str]:
    """Yield the secrets in an encoded text, since a check may have decoded it."""
    try:
        for layer in layers(from_base64(text) or text.encode()):
            yield from secret_parts(layer)
    except Undecodable:
        return


def _walk(value: Any, path: str) -> Iterator[tuple[str, str]]:
    value = decoded(value)
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _walk(inner, child_path(path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{path}[{index}]")
    elif isinstance(value, str):
        yield path, value


def _texts(value: Any) -> Iterator[str]:
    return (text for _, text in _walk(value, ""))


def _pattern(form: str) -> str:
    return re.escape(form) if len(form) >= _LONG else rf"(?<!\w){re.escape(form)}(?!\w)"


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret in plain text, in base64, in JSON, and line by line."""
    yield secret
    yield base64.b64encode(secret.encode()).decode()
    yield json.dumps(secret)[1:-1]
    yield from (
        line for line in secret.splitlines() if len(line) >= _LONG and not line.startswith("-----")
    )
