"""Who opened which session of Session Manager, as the tag that AWS gives each says.

https://docs.aws.amazon.com/systems-manager/latest/userguide/getting-started-restrict-access-examples.html
"""

from __future__ import annotations

__all__ = ["note_owner", "owner_tags"]

#: Session -> its owner's ``aws:userid``.
_OWNERS: dict[str, str] = {}


def note_owner(session_id: str, user_id: str) -> None:
    """Remember who opened a session."""
    _OWNERS[session_id] = user_id


def owner_tags(session_id: str) -> dict[str, str]:
    """Return the tag of a session that is known."""
    owner = _OWNERS.get(session_id)
    return {} if owner is None else {"aws:ssmmessages:session-id": owner}
