"""Session Manager: StartSession, ResumeSession and TerminateSession for forwarding a port.

moto lacks all three.

AWS (documented): Systems Manager StartSession returns a session's id, its stream and a token.
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_StartSession.html,
https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_TerminateSession.html
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK
from terradask_simulator.aws.fidelity.patching import add
from terradask_simulator.aws.iam.principals import find_principal
from terradask_simulator.aws.instances import find_instance, loopback_of, role_of, view_of
from terradask_simulator.aws.session_manager.sessions import OWNERS, Sessions

__all__ = ["install"]

_DOCUMENT = "AWS-StartPortForwardingSession"

#: Actions without which a host's agent isn't connected. AWS (ssm-agent-rights)
_AGENT_CALLS = frozenset(
    {
        "ssm:UpdateInstanceInformation",
        "ssmmessages:CreateControlChannel",
        "ssmmessages:CreateDataChannel",
        "ssmmessages:OpenControlChannel",
        "ssmmessages:OpenDataChannel",
    }
)


def install(sessions: Sessions) -> None:
    """Add the three calls to moto's Systems Manager."""
    from moto.ssm.responses import SimpleSystemManagerResponse

    def start_session(response: Any) -> Any:
        target, document = response._get_param("Target"), response._get_param("DocumentName")
        if document != _DOCUMENT:
            raise _refusal(
                "InvalidDocument",
                f"Document with name {document or 'SSM-SessionManagerRunShell'} does not exist.",
            )
        port = int(((response._get_param("Parameters") or {}).get("portNumber") or ["80"])[0])
        with STATE_LOCK:
            instance = find_instance(target)
            if instance is None or not instance.is_running() or not _agent_connected(instance):
                raise _refusal("TargetNotConnected", f"{target} is not connected.")
            address = loopback_of(view_of(instance).private_address)
        who, user_id = _caller(response.get_access_key())
        session = sessions.open(target, address, port, who=who)
        OWNERS[session.session_id] = user_id
        url = f"tcp://127.0.0.1:{session.stream_port}"
        return {"SessionId": session.session_id, "TokenValue": session.token, "StreamUrl": url}

    def resume_session(response: Any) -> Any:
        # A lost session of this plugin has ended.
        return {"SessionId": response._get_param("SessionId")}

    def terminate_session(response: Any) -> Any:
        session_id = response._get_param("SessionId")
        sessions.close(session_id)
        return {"SessionId": session_id}

    add(SimpleSystemManagerResponse, start_session, resume_session, terminate_session)


def _caller(access_key: str) -> tuple[str, str]:
    """Return the prefix of a caller's session names (the name of the user or the role's session)
    and the caller's unique id.
    """
    with STATE_LOCK:
        principal = find_principal(access_key)
    if principal is None:
        return "simulated", ""
    user_id = principal.context["aws:userid"][0]
    named = principal.context.get("aws:username", ())
    return (named[0] if named else user_id.rpartition(":")[2]), user_id


def _agent_connected(instance: Any) -> bool:
    role = role_of(instance)
    if role is None:
        return False
    return {*_actions(role, "Allow")} - {*_actions(role, "Deny")} >= _AGENT_CALLS


def _actions(role: Any, effect: str) -> Iterator[str]:
    """Yield the actions that a role's own policies allow, or deny, as written."""
    for document in role.policies.values():
        for statement in json.loads(document)["Statement"]:
            if statement["Effect"] == effect:
                actions = statement["Action"]
                yield from [actions] if isinstance(actions, str) else actions


def _refusal(code: str, message: str) -> Exception:
    from moto.ssm.exceptions import SSMException

    return SSMException(code, message)
