"""P5: no secret in a plan, and thus none in the state."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from terradask._common.decoding import Undecodable, from_base64, layers
from terradask._plans.policy.document import PlanDocument, Resource, Unknown
from terradask._plans.policy.findings import PolicyFinding, error
from terradask._plans.policy.patterns import named_texts, secrets_in
from terradask._plans.policy.values import child_path

#: Attributes whose value is a secret; those in ``_wo`` are in neither plan nor state.
_SECRET_ATTRIBUTES = {
    "aws_secretsmanager_secret_version": ("secret_string", "secret_binary"),
    "aws_iam_access_key": ("secret",),
    "tls_private_key": ("private_key_pem", "private_key_openssh"),
    "random_password": ("result",),
}
#: Data sources that store a secret in the state.
_SECRET_SOURCES = (
    "aws_secretsmanager_secret_version",
    "aws_secretsmanager_random_password",
    "aws_kms_secrets",
)
#: P1 checks these.
_USER_DATA = ("user_data", "user_data_base64")
_ADVICE = "have hosts fetch it when they start, or use the provider's write-only argument (…_wo)"


def secret_findings(document: PlanDocument) -> Iterator[PolicyFinding]:
    """Yield the places of secret values in a plan."""
    for resource in document.resources:
        held = [
            *_by_type(resource),
            *_marked(resource.values, resource.marks, ""),
            *_literals(resource.values),
        ]
        # Findings of several rules in one place count once.
        for path, what in dict(reversed(held)).items():
            yield _finding(resource.address, f"{path} holds {what}")
    for source in document.data:
        if source.type in _SECRET_SOURCES or (
            source.type == "aws_ssm_parameter" and not _plain_parameter(source)
        ):
            yield _finding(source.address, "reads a secret, which the state then contains")
    for name, (value, sensitive) in document.outputs.items():
        if sensitive:
            yield _finding(
                f"output.{name}", "is a sensitive output, which the state contains in plain text"
            )
        elif found := next(_literals({name: value}), None):
            yield _finding(f"output.{name}", f"holds {found[1]}")
    for name, values in document.providers.items():
        for path, what in _literals(values):
            yield _finding(f"provider.{name}", f"{path} holds {what}")


def secrets_in_state(state: str | bytes, secrets: Iterable[bytes]) -> tuple[PolicyFinding, ...]:
    """Return a finding for each secret that a state contains, in plain text or encoded."""
    held = state.encode() if isinstance(state, str) else state
    found = []
    for number, secret in enumerate(secrets, start=1):
        if any(form in held for form in _forms(secret)):
            held_one = f"the state contains secret {number} of those searched for"
            found.append(PolicyFinding("P5", "error", "", held_one, _ADVICE))
    return tuple(found)


def _forms(secret: bytes) -> set[bytes]:
    """Return a secret in plain text, in base64, in JSON, and each long line of several."""
    text = secret.strip()
    forms = {text, base64.b64encode(secret), base64.b64encode(text)}
    forms |= {json.dumps(text.decode(errors="surrogateescape"))[1:-1].encode()}
    # All PEMs have the same first and last lines.
    forms |= {
        line for line in text.splitlines() if len(line) >= 24 and not line.startswith(b"-----")
    }
    return {form for form in forms if form}


def _by_type(resource: Resource) -> Iterator[tuple[str, str]]:
    attributes = _SECRET_ATTRIBUTES.get(resource.type, ())
    if resource.type == "aws_ssm_parameter" and resource.values.get("type") == "SecureString":
        attributes = ("value",)
    for attribute in attributes:
        value = resource.values.get(attribute)
        if value and (
            value != Unknown()
            or resource.type in ("tls_private_key", "random_password", "aws_iam_access_key")
        ):
            yield attribute, "a secret's value"


def _plain_parameter(source: Resource) -> bool:
    """Return whether a parameter is one of AWS's public ones, or isn't decrypted."""
    name = source.values.get("name")
    return (isinstance(name, str) and name.startswith("/aws/service/")) or source.values.get(
        "with_decryption"
    ) in (False, "false")


def _marked(value: Any, mark: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield values that Terraform marks as sensitive."""
    if mark is True:
        if value and not isinstance(value, bool | int | float) and value != Unknown():
            yield path, "a value that Terraform marks as sensitive"
    elif isinstance(mark, Mapping) and isinstance(value, Mapping):
        for key, inner in mark.items():
            yield from _marked(value.get(key), inner, child_path(path, key))
    elif isinstance(mark, list) and isinstance(value, list):
        for index, (item, inner) in enumerate(zip(value, mark, strict=False)):
            yield from _marked(item, inner, f"{path}[{index}]")


def _literals(value: Any) -> Iterator[tuple[str, str]]:
    """Yield paths of literal values that are secrets by their name or form."""
    for path, held, by_name in named_texts(value, without=_USER_DATA):
        if by_name:
            yield path, "a secret, by its name"
        else:
            text = held if isinstance(held, str) else held.template or ""
            yield from ((path, what) for what in _limiter(text, path))


def _limiter(text: str, path: str) -> Iterator[str]:
    raw = from_base64(text) if path.endswith("base64") else None
    try:
        texts = list(layers(raw or text.encode()))
    except Undecodable:
        texts = [text]
    yield from dict.fromkeys(what for each in texts for what in secrets_in(each))


def _finding(address: str, message: str) -> PolicyFinding:
    return error(address, message, _ADVICE)
