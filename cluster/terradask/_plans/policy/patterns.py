"""Patterns of secrets by kind, narrower than those for masking, since a finding stops an apply."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from terradask._common.decoding import Undecodable, from_base64, layers
from terradask._common.masking import SENSITIVE, masked_text, secret_name
from terradask._plans.policy.document import Unknown
from terradask._plans.policy.findings import PolicyFinding
from terradask._plans.policy.values import attribute_changes, child_path, decoded

_WORDS = (
    r"password|passwd|passphrase|secret|token|secret_?key|secret_?access_?key|private_?key"
    r"|access_?key|api_?key"
)

#: The token of an AWS request makes it idempotent, and is not a secret.
_HARMLESS_NAMES = frozenset({"client_token", "next_token"})

_PATTERNS: dict[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----"),
    # The prefixes of access keys: AWS, "IAM identifiers", unique identifiers.
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    # The prefixes of tokens: GitHub, "About authentication to GitHub", token formats.
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})"),
    # Prefixes of services' tokens, made for scanners.
    "a token": re.compile(
        r"\b(?:glpat-[\w-]{20,}|xox[abeprs]-[\w-]{10,}|AIza[\w-]{35}|npm_[A-Za-z0-9]{36}"
        r"|pypi-[\w-]{16,}|hf_[A-Za-z0-9]{30,}|sk_live_[A-Za-z0-9]{16,}|AGE-SECRET-KEY-1\w{20,})"
    ),
    # RFC 7519: a header and claims, both JSON objects in base64url.
    "a JSON web token": re.compile(r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*"),
    "credentials for HTTP": re.compile(
        r"\bAuthorization[\"']?\s*[:=]\s*[\"']?(?:Basic|Bearer|token)\s+[A-Za-z0-9+/._~=-]{8,}"
        r"|(?:^|\s)(?:-u|--user|--proxy-user)[ =]?[\"']?(?!\d+:\d+\b)[^\s:\"'$=]+:[^\s\"'$]{3,}",
        re.IGNORECASE,
    ),
    "a password in an address": re.compile(
        r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'$]+:[^\s/@\"'$]{3,}@", re.IGNORECASE
    ),
    # With "=", or with ":" as in YAML and JSON: an ARN also has colons.
    "a secret that is assigned": re.compile(
        rf"(?<![a-z])(?:[\w.-]{{0,64}}[^a-z\s:=])?(?:{_WORDS})(?:[\"']?\s*=|[\"']\s*:|:(?=\s))\s*[\"']?"
        r"(?P<value>[^\s\"'$<>(){}\[\],;\\]{6,})",
        re.IGNORECASE,
    ),
}

#: Forbidden in user data too: a key's public half, and the contents that dask-cloudprovider writes.
_NOT_IN_USER_DATA: dict[str, re.Pattern[str]] = {
    "a PEM block": re.compile(r"-----BEGIN [A-Z0-9 ]+-----"),
    "a TLS key": re.compile(r"\btls[-_]key\b", re.IGNORECASE),
    "a whole Dask configuration": re.compile(r"DASK_INTERNAL_INHERIT_CONFIG"),
}

#: References to a secret: its location, not its value.
_POINTERS = ("arn:", "resolve:", "ssm:", "secretsmanager:")


def secrets_in(text: str) -> list[str]:
    """Return the kinds of secrets that a text seems to contain, without the secrets."""
    return [
        what
        for what, pattern in _PATTERNS.items()
        if any(not _points(match) for match in pattern.finditer(text))
    ]


def forbidden_in_user_data(text: str) -> list[str]:
    """Return forbidden contents of user data, by kind."""
    kinds = [
        what for what, pattern in _NOT_IN_USER_DATA.items() if pattern.search(text)
    ] + secrets_in(text)
    return [what for what in kinds if what != "a PEM block" or "a private key" not in kinds]


def is_secret_name(name: str) -> bool:
    """Return whether a name denotes a secret."""
    return name not in _HARMLESS_NAMES and secret_name(name)


def points_to_secret(value: str) -> bool:
    """Return whether a value is a secret's location, not a secret."""
    return value.startswith(_POINTERS)


def named_texts(
    value: Any, path: str = "", *, without: Collection[str] = ()
) -> Iterator[tuple[str, str | Unknown, bool]]:
    """Yield the path of every text in a value, the text, and whether its name makes it a secret."""
    if isinstance(value, str):
        held = decoded(value)
        if held is value:
            yield path, value, False
            return
        value = held
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in without:
                continue
            here = child_path(path, key)
            if (
                isinstance(inner, str)
                and inner
                and is_secret_name(str(key))
                and not points_to_secret(inner)
            ):
                yield here, inner, True
            else:
                yield from named_texts(inner, here, without=without)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from named_texts(item, f"{path}[{index}]", without=without)
    elif isinstance(value, Unknown):
        yield path, value, False


def secret_parts(text: str) -> list[str]:
    """Return the secrets in a text, for masking."""
    pem = re.findall(
        r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
        text,
    )
    found = [
        match.groupdict().get("value") or match.group()
        for pattern in _PATTERNS.values()
        for match in pattern.finditer(text)
    ]
    return [*pem, *found]


def _points(match: re.Match[str]) -> bool:
    return points_to_secret(match.groupdict().get("value") or "")


# ---- removing a plan's secrets from the texts of findings ----------------------------------------


#: Shorter ones would mask half of every text; short ones are masked as words.
_SHORT, _LONG = 4, 12


class Scrubber:
    """Masks a plan's secrets, other ones, and everything that looks like one."""

    def __init__(self, document: Mapping[str, Any], others: Iterable[str] = ()) -> None:
        forms = {form for each in {*_secrets(document), *others} for form in _forms(each)}
        self._longest_first = sorted(
            (form for form in forms if len(form) >= _SHORT), key=len, reverse=True
        )

    def text(self, text: str) -> str:
        """Return a text with its secrets masked."""
        # A common pattern would take longer to compile than a plan's check.
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
            yield from (text for _, text in _walk(output.get("value"), ""))
    yield from _by_name(document)


def _mapping(value: Any) -> Mapping[str, Any]:
    """Return a part of a plan, or an empty one if it isn't Terraform's."""
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
