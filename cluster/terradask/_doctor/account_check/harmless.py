"""Requests and answers without ids, names and secrets: an allow-list of what is kept.

Kept are keys, types, values that AWS's API defines, and texts that consist only of words of the API
and of terradask. Pure.
"""

from __future__ import annotations

import datetime
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from botocore import xform_name

from terradask_modules.kinds import KINDS

if TYPE_CHECKING:
    from botocore.model import Shape

#: Any text.
TEXT = "<…>"
#: More items like those before, or fewer.
MORE = "<more>"

#: Words that terradask gives its own resources, and words of ARNs and of AWS's public names.
_OWN_WORDS = """
64 access account action address al2023 allow amazon amazonaws amazonec2 amd64 ami analyze any
arm64 arn auto autoscaling aws awsserviceroleforec2spot bool box check clusters com compute
condition dask dead deeplearning default deny ec2 ec2messages ecs effect elasticfilesystem
environments equals equivalent exists family fleet for forwarding gp3 group hosts hvm iam id if
img json kernel keys latest lease like linked linux lock locks log logs man nat network not null
numeric on packages pass policy port principal private request requested resource root run runs
s3 scaling scheduler secretsmanager service servicequotas smoke spot ssm ssmmessages standard
state statement string sts tag terradask terraform tflock tfstate to type unlocks usage user
values version vpc worker workers workspaces x86
"""
#: Services whose words are known: those of the kinds, and what terradask also calls.
_SERVICES = {
    "cloudwatch",
    "kms",
    "pricing",
    "service-quotas",
    "ssm",
    "sts",
    *(kind.service for kind in KINDS.values()),
}
_LONGEST = 300
#: The most values of a field that are of interest: types of instances are a catalog.
_MOST_VALUES = 100
#: Fields with AWS's own values that its models don't enumerate.
_DEFINED_BY_AWS = {
    "HealthStatus": {"Healthy", "Unhealthy", "HEALTHY", "UNHEALTHY"},
    "Path": {"/"},
    "Type": {"Sender", "Receiver"},
}
#: Lists of ARNs that needn't exist.
_MENTIONED = frozenset({"ResourceArns"})
#: An ARN up to the resource's kind, and the rest.
_ARN = re.compile(r"(arn(?::[^:]*){4}:(?:[a-z-]+[/:])?)(.+)")
_ID = re.compile(r"[a-z]+-[0-9a-f]{8,}")
_ENUM_LIKE = re.compile(r"[A-Za-z][A-Za-z0-9:._-]{0,39}")
_PIECES = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_TOKEN = re.compile(r"[A-Za-z0-9]+")
_SMALL_NUMBER = re.compile(r"[0-9]{1,3}")
#: More are an address.
_MOST_NUMBERS = 3
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_ACCOUNT = re.compile(r"(?<![0-9A-Za-z])[0-9]{12}(?![0-9A-Za-z])")
_OWN_NAME = re.compile(r"(?<![0-9A-Za-z])smoke-[0-9a-f]{4}(?![0-9A-Za-z])")
#: A word of a message; anything with a digit, a slash or a hyphen may be a name.
_PLAIN = re.compile(r"[(\['\"]?[A-Za-z]{1,20}(?:'[a-z]{1,2})?[)\]'\".,:;!?]*|[0-9]{1,2}[.,:;]?")
_ACTION = re.compile(r"[a-z0-9-]{2,30}:[A-Z][A-Za-z]{2,60}\.?")
_CODE = re.compile(r"[A-Za-z0-9.]{1,80}")
_MILLISECONDS = 10**11


@cache
def known_words() -> frozenset[str]:
    """Return the words of AWS's API, names of operations, fields and values, and terradask's."""
    import botocore.session

    session = botocore.session.get_session()
    found = set(_OWN_WORDS.split())
    for service in map(session.get_service_model, _SERVICES):
        found |= {word for name in service.operation_names for word in _pieces(name)}
        for name in service.shape_names:
            shape = service.shape_for(name)
            for text in (name, *getattr(shape, "members", ()), *getattr(shape, "enum", ())):
                found |= set(_pieces(text))
    return frozenset(word for word in found if len(word) > 1)


def _pieces(text: str) -> Iterator[str]:
    for token in _TOKEN.findall(text):
        yield token.lower()
        yield from (piece.lower() for piece in _PIECES.findall(token))


def is_known(text: str) -> bool:
    """Return whether a text consists only of known words, and at most three small numbers."""
    words, tokens = known_words(), _TOKEN.findall(text)
    numbers = [token for token in tokens if token.isdigit()]
    few = len(numbers) <= _MOST_NUMBERS and all(map(_SMALL_NUMBER.fullmatch, numbers))
    return (
        len(text) <= _LONGEST
        and (few or _DATE.fullmatch(text) is not None)
        and all(
            token.lower() in words
            or (token.isalpha() and all(one.lower() in words for one in _PIECES.findall(token)))
            for token in tokens
            if not token.isdigit()
        )
    )


def harmless_message(text: str, hidden: frozenset[str]) -> str:
    """Return AWS's message with every word replaced that may be a name.

    Parameters
    ----------
    text, hidden
        The message, and the texts of the request, which a message often quotes.
    """
    for one in sorted(hidden, key=len, reverse=True):
        text = re.sub(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", TEXT, text)
    kept = (
        word if _PLAIN.fullmatch(word) or _ACTION.fullmatch(word) else TEXT for word in text.split()
    )
    return re.sub(rf"{TEXT}(?: {TEXT})+", TEXT, " ".join(kept))


def harmless_code(code: str) -> str:
    """Return AWS's error code; an answer of another server may have any text in its place."""
    return code if _CODE.fullmatch(code) else TEXT


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a value."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for one in value.values():
            yield from texts_in(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from texts_in(one)


@dataclass
class Names:
    """The names of a case: text -> its name, and the texts that only a created resource has."""

    #: Text of an earlier answer -> the call's number, and the JMESPath to it.
    answered: Mapping[str, tuple[int, str]]
    known: dict[str, str] = field(default_factory=dict)
    #: Names that this call's parameters gave first, or that earlier calls didn't create.
    used: set[str] = field(default_factory=set)
    #: Names of ARNs and ids: a fresh name can't replace one.
    foreign: set[str] = field(default_factory=set)
    #: Name -> the number of the call that keeps it, and the JMESPath.
    kept: dict[str, tuple[int, str]] = field(default_factory=dict)

    def of(self, text: str, member: str, *, inside: bool = False) -> str:
        """Return ``$name`` for a text of a request."""
        if text not in self.known:
            # A key of a map may be a name.
            base = xform_name(member) if member.isalpha() and is_known(member) else "text"
            taken = {"account", "region", "now", "now_ms", "workspace", *self.known.values()}
            name, number = base, 2
            while name in taken:
                name, number = f"{base}_{number}", number + 1
            self.known[text] = name
            if text.startswith("arn:") or _ID.fullmatch(text):
                self.foreign.add(name)
            if text in self.answered:
                self.kept[name] = self.answered[text]
        if not inside:
            self.used.add(self.known[text])
        return f"${{{self.known[text]}}}"

    def request(
        self, value: Any, shape: Shape | None, member: str = "", *, inside: bool = False
    ) -> Any:
        """Return a request's value with names in place of unknown texts.

        `inside` a document, a name is only mentioned.
        """
        if isinstance(value, Mapping):
            return {
                _key(shape, str(key)): self.request(
                    one, _member(shape, str(key)), str(key), inside=inside
                )
                for key, one in value.items()
                if key != "Sid"  # only a name
            }
        if isinstance(value, list | tuple):
            part = getattr(shape, "member", None)
            inside = inside or member in _MENTIONED
            return [self.request(one, part, member, inside=inside) for one in value]
        if isinstance(value, str) and not _is_secret(shape):
            return self._text(value, shape, member, inside)
        return _plain_request(value)

    def _text(self, value: str, shape: Shape | None, member: str, inside: bool) -> Any:
        if value in getattr(shape, "enum", ()):
            return value
        if (document := _document(value)) is not None:
            return self.request(document, None, member, inside=True)
        if member == "Path" and value.startswith("/") and len(value) > 1:
            return f"/{self.of(value.strip('/'), member)}/"  # IAM takes no other form
        others = _ACCOUNT.sub("", _OWN_NAME.sub("", value))
        known = is_known(others) and not set("$<") & set(value)
        is_arn = value.startswith("arn:")
        # A name of the check's own is unique.
        if known and (inside or not others or (others == value and not is_arn)):
            return _ACCOUNT.sub("$account", _OWN_NAME.sub("${workspace}", value))
        if inside and (arn := _ARN.fullmatch(value)):
            kind, resource = arn.groups()
            place = _ACCOUNT.sub("$account", kind)
            if is_known(place):
                return f"{place}{self.of(resource, member, inside=True)}"
        return self.of(value, member, inside=inside)

    def answer(self, value: Any, shape: Shape | None, *, reads: bool, key: str = "") -> Any:
        """Return an answer's value: its keys and types, AWS's own values, and known names."""
        if isinstance(value, Mapping) and getattr(shape, "type_name", "") == "string":
            return "<any>"  # a policy, which botocore reads
        if isinstance(value, Mapping):
            return {
                _key(shape, str(name)): self.answer(
                    one, _member(shape, str(name)), reads=reads, key=str(name)
                )
                for name, one in value.items()
                if name != "ResponseMetadata"
            }
        if isinstance(value, list | tuple):
            items = [
                self.answer(one, getattr(shape, "member", None), reads=reads, key=key)
                for one in value
            ]
            return [*_examples(items), MORE] if reads else items
        if isinstance(value, str) and value in self.known:
            return f"${{{self.known[value]}}}"
        return _plain_answer(value, shape, key)


def _plain_request(value: Any) -> Any:
    if isinstance(value, datetime.datetime):
        return "$now"
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return "$now_ms" if value >= _MILLISECONDS else value
    return "x"


def _plain_answer(value: Any, shape: Shape | None, key: str) -> Any:
    if value is None or value == "" or isinstance(value, bool):
        return value
    if isinstance(value, datetime.datetime):
        return "<time>"
    if isinstance(value, int | float):
        return "<number>"
    if isinstance(value, str) and not _is_secret(shape):
        values = getattr(shape, "enum", ())
        defined = 0 < len(values) <= _MOST_VALUES and _ENUM_LIKE.fullmatch(value)
        return value if defined or value in _DEFINED_BY_AWS.get(key, ()) else TEXT
    return TEXT


def _document(text: str) -> Any:
    """Return the JSON document that a text is; None for other texts."""
    if not text.startswith(("{", "[")):
        return None
    try:
        return json.loads(text)
    except ValueError:
        return None


def _is_secret(shape: Shape | None) -> bool:
    return shape is not None and bool(shape.metadata.get("sensitive") or shape.type_name == "blob")


def _key(shape: Shape | None, key: str) -> str:
    return key if key in getattr(shape, "members", ()) or is_known(key) else TEXT


def _member(shape: Shape | None, key: str) -> Shape | None:
    members: Mapping[str, Shape] = getattr(shape, "members", {})
    return members.get(key) or getattr(shape, "value", None)


def _examples(items: list[Any]) -> list[Any]:
    """Return the items that show a key, a value, or the absence of a key first."""
    shown: set[tuple[str, str]] = set()
    always: set[str] | None = None
    found = []
    for one in items:
        pairs = set(_leaves(one))
        paths = {path for path, _ in pairs}
        if always is None or pairs - shown or always - paths:
            found.append(one)
            shown |= pairs
            always = paths if always is None else always & paths
    return found


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    yield path, value if isinstance(value, str) else ""
    if isinstance(value, Mapping):
        for key, one in value.items():
            yield from _leaves(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from _leaves(one, f"{path}[]")
