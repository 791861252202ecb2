"""terradask's rules of secrets: names and texts masked even without Terraform's mark."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import Any

from terradask._common.decoding import from_base64

SENSITIVE = "(sensitive)"

#: Maps of environment variables: all values in them except numbers are masked.
_ENVIRONMENTS = frozenset({"env", "environ", "environment", "environment_variables", "env_vars"})

_WORDS = (
    r"secret|password|passwd|passphrase|pwd|token|secret_key|secret_access_key|private_key"
    r"|api_?key|access_key|credentials?|auth_token"
)
_NAME = re.compile(
    rf"^(user_data(_base64)?|secret_string|secret_binary|key_material|private_key(_\w+)?|session_token|connection_string|(\w+_)?({_WORDS}))$"
)
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_NAMED_TEXT = rf"(?<![a-z0-9_-])[a-z0-9_-]{{0,60}}?(?:{_WORDS.replace('_', '[_-]?')})\b"
_SIGN = r"(?:\s*=\s*|\\*[\"']\s*:\s*|:[ \t]+)"

#: Texts that are always secrets: the first group is kept, the rest is masked.
_TEXTS = (
    re.compile(
        r"()-----BEGIN [A-Z ]*PRIVATE KEY( BLOCK)?-----.*?(-----END [A-Z ]*PRIVATE KEY( "
        r"BLOCK)?-----|\Z)",
        re.S,
    ),
    re.compile(r"()\b(AKIA|ASIA)[0-9A-Z]{16}\b"),
    re.compile(
        r"()\b(gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w-]{20,}|xox[abeprs]-[\w-]{10,})"
    ),
    re.compile(r"()\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]+"),
    re.compile(
        r"((?<![a-zA-Z0-9+.-])[a-zA-Z][a-zA-Z0-9+.-]{0,20}://[^\s/:@'\"]*:)[^\s/@'\"]+(?=@)"
    ),
    re.compile(
        r"(\bAuthorization\\*[\"']?\s*[:=]\s*\\*[\"']?(?:[A-Za-z]+\s+)?)(?!\(sensitive\)|[$\s])[A-Za-z0-9+/._~=-]{8,}",
        re.I,
    ),
    re.compile(r"(\bBearer\s+)(?=\S*\d)[A-Za-z0-9+/._~=-]{16,}"),
    # A name, a sign, a value, in a shell, TOML, YAML or JSON; not a reference, not an ARN.
    re.compile(
        rf"({_NAMED_TEXT}{_SIGN}\\*\")(?!\(sensitive\)|[$\"\\])[^\"\n]*?(?=\\*\"|\n|\Z)", re.I
    ),
    re.compile(rf"({_NAMED_TEXT}{_SIGN}')(?!\(sensitive\)|[$'])[^'\n]*", re.I),
    re.compile(
        rf"({_NAMED_TEXT}{_SIGN})(?!\(sensitive\)|[$\s\"'{{\[(|>\\]|(?:true|false|null|none|\d{{1,3}})\b)[^\s\"'&\\]+",
        re.I,
    ),
    re.compile(rf"({_NAMED_TEXT}:[ \t]*[|>][+-]?[ \t]*\n[ \t]+)(?!\(sensitive\))[^\n]+", re.I),
    re.compile(
        r"((?<!\S)--?[a-z-]*(?:password|passwd|passphrase|token|secret)\s+)(?!\(sensitive\)|[$\s-])[^\s\"']+",
        re.I,
    ),
)
_PLAIN = re.compile(r"-?\d{1,9}(\.\d+)?|true|false|", re.I)
_BASE64 = re.compile(r"[A-Za-z0-9+/]{24,}={0,2}")


def secret_name(name: object) -> bool:
    """Return whether a name denotes a secret: ``db_password``, ``DB_PASSWORD``, ``dbPassword``."""
    return isinstance(name, str) and _denotes_secret(name)


# A plan has the same few names thousands of times.
@functools.lru_cache(maxsize=4096)
def _denotes_secret(name: str) -> bool:
    return _NAME.match(_CAMEL.sub("_", name).replace("-", "_").lower()) is not None


def in_environment(path: Iterable[object], value: Any) -> bool:
    """Return whether a value is an environment variable's, and neither a number nor a flag."""
    inside = any(
        isinstance(part, str) and part.lower() in _ENVIRONMENTS for part in list(path)[:-1]
    )
    return inside and isinstance(value, str) and _PLAIN.fullmatch(value) is None


def looks_secret(value: Any) -> bool:
    """Return whether a value contains a secret at any depth, also in base64."""
    if isinstance(value, str):
        return masked_text(value) != value or _secret_in_base64(value)
    if isinstance(value, Mapping):
        return any(map(looks_secret, value.values()))
    return isinstance(value, list) and any(map(looks_secret, value))


def masked_text(text: str) -> str:
    """Return a text with everything that looks like a secret masked."""
    for pattern in _TEXTS:
        text = pattern.sub(rf"\g<1>{SENSITIVE}", text)
    return text


def _secret_in_base64(text: str) -> bool:
    inner = from_base64(text) if _BASE64.fullmatch(text) else None
    try:
        return inner is not None and masked_text(inner.decode()) != inner.decode()
    except UnicodeDecodeError:
        return False
