"""Prove from recorded requests that a policy is sufficient and has no needless action. Pure.

Record one full lifecycle with ``Simulator.start(enforce_iam=True)`` and read
``Simulator.requests()``. Proving that each action is required then needs no further run.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from terradask_simulator.aws.iam.documents import MalformedPolicy, Policy, listed
from terradask_simulator.aws.iam.evaluation import Decision, Policies, Request, evaluate
from terradask_simulator.aws.iam.log import LoggedRequest
from terradask_simulator.aws.iam.patterns import like

__all__ = [
    "Decision",
    "LoggedRequest",
    "MalformedPolicy",
    "Policies",
    "Policy",
    "Request",
    "denied_by",
    "entries",
    "evaluate",
    "minus_action",
    "needless",
]

#: A policy document, as JSON values or text.
Document = str | Mapping[str, Any]


def denied_by(
    policy: Document | Iterable[Document], requests: Request | Iterable[Request]
) -> list[Request]:
    """Return the requests that policies don't allow.

    Parameters
    ----------
    policy
        One identity-based policy or several.
    requests
        The requests to decide.
    """
    documents = [policy] if isinstance(policy, str | Mapping) else list(policy)
    held = Policies(tuple(Policy.parse(document) for document in documents))
    asked = [requests] if isinstance(requests, Request) else requests
    return [request for request in asked if not evaluate(request, held).allowed]


def entries(policy: Document) -> Iterator[tuple[int, str, str]]:
    """Yield each action of each allowing statement: the statement's number, its name, the action as
    written.
    """
    for number, statement in enumerate(_statements(_decoded(policy))):
        if statement["Effect"] == "Allow":
            for action in listed(statement.get("Action", [])):
                yield number, str(statement.get("Sid", number)), action


def minus_action(policy: Document, action: str, statement: int | None = None) -> dict[str, Any]:
    """Return a policy without an action; a statement without actions is removed.

    Parameters
    ----------
    policy
        The policy; it isn't changed.
    action
        The action as written in the policy.
    statement
        The number of the statement to change; by default every one that allows the action.
    """
    document = _decoded(policy)
    kept = []
    for number, one in enumerate(_statements(document)):
        if one["Effect"] != "Allow" or statement not in (None, number):
            kept.append(one)
            continue
        actions = [each for each in listed(one.get("Action", [])) if each != action]
        if actions or "NotAction" in one:
            kept.append({**one, "Action": actions} if "Action" in one else one)
    return {**document, "Statement": kept}


def needless(
    policy: Document, requests: Iterable[Request], others: Iterable[Document] = ()
) -> list[tuple[str, str]]:
    """Return the actions whose removal refuses no request: pairs of statement name and action.

    Parameters
    ----------
    policy
        The policy to check.
    requests
        The recorded requests.
    others
        Further policies of the same principal.
    """
    rest = [_decoded(document) for document in others]
    distinct = list(
        {json.dumps(request.as_dict(), sort_keys=True): request for request in requests}.values()
    )
    refused = denied_by([policy, *rest], distinct)
    allowed = [request for request in distinct if request not in refused]

    def breaks(number: int, action: str) -> bool:
        # Removing an action only affects requests for this action.
        touched = [
            request for request in allowed if like(action, request.action, {}, ignore_case=True)
        ]
        return bool(denied_by([minus_action(policy, action, number), *rest], touched))

    return [
        (name, action) for number, name, action in entries(policy) if not breaks(number, action)
    ]


def _decoded(policy: Document) -> dict[str, Any]:
    whole: dict[str, Any] = json.loads(policy) if isinstance(policy, str) else dict(policy)
    return whole


def _statements(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    return listed(document["Statement"])
