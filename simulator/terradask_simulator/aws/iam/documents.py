"""Parse policy documents into statements."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from terradask_simulator.aws.errors import SimulatorError

__all__ = ["Condition", "MalformedPolicy", "Policy", "Statement", "listed"]

_OLDEST_VERSION = "2008-10-17"


class MalformedPolicy(SimulatorError):
    """A document isn't an IAM policy."""


@dataclass(frozen=True)
class Condition:
    """One line of a statement's condition: an operator, a key and the allowed values."""

    operator: str
    key: str
    values: tuple[str, ...]


@dataclass(frozen=True)
class Statement:
    """One statement.

    Parameters
    ----------
    effect
        ``Allow`` or ``Deny``.
    actions, not_actions, resources, not_resources
        Patterns; one of each pair is empty.
    principals, not_principals
        Pairs of kind (``AWS``, ``Service``, ``Federated`` …) and name; empty in identity-based
        policies.
    conditions
        All of them must hold.
    sid
        The statement's name, empty without one.
    """

    effect: str
    actions: tuple[str, ...] = ()
    not_actions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    not_resources: tuple[str, ...] = ()
    principals: tuple[tuple[str, str], ...] = ()
    not_principals: tuple[tuple[str, str], ...] = ()
    conditions: tuple[Condition, ...] = ()
    sid: str = ""


@dataclass(frozen=True)
class Policy:
    """A policy.

    Parameters
    ----------
    statements
        The policy's statements.
    version
        The version of the policy language: variables are replaced from 2012-10-17 on, and are plain
        text before.
    name
        By which a decision refers to it.
    """

    statements: tuple[Statement, ...]
    version: str = "2012-10-17"
    name: str = field(default="", compare=False)

    @classmethod
    def parse(cls, document: str | Mapping[str, Any], name: str = "") -> Policy:
        """Parse a document.

        Parameters
        ----------
        document
            JSON, as text or already decoded.
        name
            By which a decision refers to it.

        Raises
        ------
        MalformedPolicy
            The document isn't a policy.
        """
        return _parse(document if isinstance(document, str) else json.dumps(document), name)


@lru_cache(maxsize=512)
def _parse(text: str, name: str) -> Policy:
    try:
        whole = json.loads(text)
        statements = tuple(_statement(each) for each in listed(whole.get("Statement", [])))
    except (ValueError, AttributeError, KeyError, TypeError) as error:
        raise MalformedPolicy(
            "A policy document can't be read",
            given=f"{name or 'a policy'}: {error}",
            allowed="https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_grammar.html",
            advice="correct the document",
        ) from error
    return Policy(statements, str(whole.get("Version", _OLDEST_VERSION)), name)


def _statement(given: Mapping[str, Any]) -> Statement:
    if given["Effect"] not in ("Allow", "Deny"):
        raise ValueError(f"Effect is {given['Effect']!r}; Allow or Deny")
    if ("Action" in given) == ("NotAction" in given):
        raise ValueError("a statement has either Action or NotAction")
    return Statement(
        effect=given["Effect"],
        actions=_texts(given.get("Action", ())),
        not_actions=_texts(given.get("NotAction", ())),
        resources=_texts(given.get("Resource", ())),
        not_resources=_texts(given.get("NotResource", ())),
        principals=_principals(given.get("Principal")),
        not_principals=_principals(given.get("NotPrincipal")),
        conditions=tuple(
            Condition(operator, key, _texts(values))
            for operator, lines in given.get("Condition", {}).items()
            for key, values in lines.items()
        ),
        sid=given.get("Sid", ""),
    )


def _principals(given: Any) -> tuple[tuple[str, str], ...]:
    if given is None:
        return ()
    if isinstance(given, str):
        return (("AWS", given),)
    return tuple((kind, name) for kind, names in given.items() for name in _texts(names))


def listed(value: Any) -> list[Any]:
    """Return a value or a list of values as a list."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(str(one).lower() if isinstance(one, bool) else str(one) for one in listed(value))
