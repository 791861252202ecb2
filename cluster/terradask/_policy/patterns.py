"""What gives a secret away, and what kind it is. Narrower than what is masked: a finding stops an apply."""

from __future__ import annotations

import re

from terradask._policy.masking import secret_name

_WORDS = r"password|passwd|passphrase|secret|token|secret_?key|secret_?access_?key|private_?key|access_?key|api_?key"

#: An AWS request's token makes it idempotent, and opens nothing.
_HARMLESS_NAMES = frozenset({"client_token", "next_token"})

_LOOKS: dict[str, re.Pattern[str]] = {
    "a private key": re.compile(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----"),
    # The prefixes of access keys: AWS, "IAM identifiers", unique identifiers.
    "an AWS access key": re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b"),
    # The prefixes of tokens: GitHub, "About authentication to GitHub", token formats.
    "a GitHub token": re.compile(r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_[A-Za-z0-9_]{40,})"),
    "a password in an address": re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s/:@\"'$]+:[^\s/@\"'$]{3,}@", re.IGNORECASE),
    # With "=", or with ":" as YAML and JSON write it: an ARN has colons of its own.
    "a secret that is assigned": re.compile(
        rf"(?<![a-z])(?:[\w.-]{{0,64}}[^a-z\s:=])?(?:{_WORDS})(?:[\"']?\s*=|[\"']\s*:|:(?=\s))\s*[\"']?"
        r"(?P<value>[^\s\"'$<>(){}\[\],;\\]{6,})",
        re.IGNORECASE,
    ),
}

#: In user data not even the public half of a key has a place, nor what dask-cloudprovider puts there.
_NOT_IN_USER_DATA: dict[str, re.Pattern[str]] = {
    "a PEM block": re.compile(r"-----BEGIN [A-Z0-9 ]+-----"),
    "a TLS key": re.compile(r"\btls[-_]key\b", re.IGNORECASE),
    "a whole Dask configuration": re.compile(r"DASK_INTERNAL_INHERIT_CONFIG"),
}

#: What stands in for a secret: where it lies, not what it is.
_POINTERS = ("arn:", "resolve:", "ssm:", "secretsmanager:")


def secret_looks(text: str) -> list[str]:
    """Return what looks like a secret in a text: its kinds, never itself."""
    return [what for what, look in _LOOKS.items() if any(not _points(match) for match in look.finditer(text))]


def forbidden_in_user_data(text: str) -> list[str]:
    """Return what must not stand in user data, by kind."""
    kinds = [what for what, look in _NOT_IN_USER_DATA.items() if look.search(text)] + secret_looks(text)
    return [what for what in kinds if what != "a PEM block" or "a private key" not in kinds]


def is_secret_name(name: str) -> bool:
    """Return whether a value of this name is a secret."""
    return name not in _HARMLESS_NAMES and secret_name(name)


def points_to_secret(value: str) -> bool:
    """Return whether a value says where a secret lies, and isn't one."""
    return value.startswith(_POINTERS)


def secret_parts(text: str) -> list[str]:
    """Return the secrets in a text, to be masked."""
    pem = re.findall(r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)", text)
    found = [match.groupdict().get("value") or match.group() for look in _LOOKS.values() for match in look.finditer(text)]
    return [*pem, *found]


def _points(match: re.Match[str]) -> bool:
    return points_to_secret(match.groupdict().get("value") or "")
