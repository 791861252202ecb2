"""What a caller with some policies is, in a sentence: more than the list of its actions says."""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope

_ABOUT = {
    "ongoing": (
        "deploys and starts clusters. It reads no keys with its own credentials, but hosts that it "
        "launches do: trust it as you trust users"
    ),
    "ci": (
        "plans, and changes nothing but the locks of states. It reads the states and documents of "
        "all clusters"
    ),
}


def about(scope: CallerScope, caller: str) -> str:
    """Return what a caller with its policies is."""
    if caller == "setup":
        what = f"makes the network, and decides what hosts run{_roles(scope)}"
    elif caller == "user":
        what = (
            "runs code on every cluster of the workspace that isn't private, with the rights of "
            f"its hosts; it starts, stops and destroys clusters of others too{_sessions(scope)}"
        )
    else:
        what = _ABOUT[caller]
    return f"{caller} {what}"


def _sessions(scope: CallerScope) -> str:
    return (
        ", and forwards any port of any scheduler through sessions" if scope.session_manager else ""
    )


def _roles(scope: CallerScope) -> str:
    if not scope.made_roles:
        return ""
    if scope.permissions_boundary is None:
        return (
            " and what they may do, without a permissions boundary: it can become the account's "
            "administrator, by a role that it makes"
        )
    return f" and what they may do, within the permissions boundary {scope.permissions_boundary}"
