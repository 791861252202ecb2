"""Valid access keys: the owner's, and those issued by STS and IAM of this AWS."""

from __future__ import annotations

import configparser
import datetime
import secrets
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask_simulator.aws.backend import STATE_LOCK, every_account
from terradask_simulator.aws.fidelity.session_tokens import session_of

__all__ = [
    "AccessKey",
    "KeyRing",
    "make_owner_key",
    "read_owner_key",
    "role_assumed_with",
    "user_with",
    "write_owner_key",
]

_ID_CHARACTERS = string.ascii_uppercase + "234567"
_PROFILE = "default"


@dataclass(frozen=True)
class AccessKey:
    """An access key; a temporary one has a session token and expires."""

    access_key_id: str
    secret: str = field(repr=False)
    token: str = field(default="", repr=False)
    expires: datetime.datetime | None = None


def make_owner_key() -> AccessKey:
    """Return a random access key."""
    name = "".join(secrets.choice(_ID_CHARACTERS) for _ in range(16))
    return AccessKey(f"AKIA{name}", secrets.token_urlsafe(30))


def write_owner_key(path: Path, key: AccessKey) -> None:
    """Write a shared credentials file that only its owner can read."""
    path.unlink(missing_ok=True)
    text = (
        f"[{_PROFILE}]\naws_access_key_id = {key.access_key_id}\n"
        f"aws_secret_access_key = {key.secret}\n"
    )
    path.touch(mode=0o600, exist_ok=False)
    path.write_text(text)


def read_owner_key(path: Path) -> AccessKey:
    """Read the file of `write_owner_key`.

    Raises `OSError`, `KeyError`.
    """
    parser = configparser.ConfigParser(interpolation=None)
    with path.open() as file:
        parser.read_file(file)
    section = parser[_PROFILE]
    return AccessKey(section["aws_access_key_id"], section["aws_secret_access_key"])


class KeyRing:
    """Find access keys by their ids."""

    def __init__(self, owner: AccessKey) -> None:
        self.owner = owner

    def find(self, access_key_id: str) -> AccessKey | None:
        """Return a valid access key, or None."""
        if access_key_id == self.owner.access_key_id:
            return self.owner
        with STATE_LOCK:
            session = session_of(access_key_id)
            if session is not None:
                return AccessKey(access_key_id, session.secret, session.token, session.expires)
            assumed = role_assumed_with(access_key_id)
            if assumed is not None:
                return AccessKey(
                    access_key_id,
                    assumed.secret_access_key,
                    assumed.session_token,
                    assumed.expiration.replace(tzinfo=datetime.UTC),
                )
            _, key = user_with(access_key_id)
            return None if key is None else AccessKey(access_key_id, key.secret_access_key)


def role_assumed_with(access_key_id: str) -> Any | None:
    """Return moto's role session with an access key; call it with the lock held."""
    from moto.sts.models import sts_backends

    for backend in every_account(sts_backends):
        for one in reversed(backend.assumed_roles):
            if one.access_key_id == access_key_id:
                return one
    return None


def user_with(access_key_id: str) -> tuple[Any, Any]:
    """Return moto's user with an active access key, and the key; call it with the lock held."""
    from moto.iam.models import iam_backends

    for backend in every_account(iam_backends):
        for user in backend.users.values():
            for key in user.access_keys:
                if key.access_key_id == access_key_id and key.status == "Active":
                    return user, key
    return None, None
