"""Sessions of users: ``GetSessionToken`` returns the caller's own temporary keys, within AWS's
durations.

moto returns the same example key, of no user, for any duration, also to callers with temporary
credentials.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass, field
from typing import Any

from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.fidelity.patching import add, around

__all__ = ["Session", "install", "session_of"]

#: AWS (sts-session-seconds)
_SECONDS = range(900, 129_600 + 1)
_DEFAULT_SECONDS = 43_200


@dataclass(frozen=True)
class Session:
    """A user's session; the caller is the long-term access key that requested it."""

    caller: str
    secret: str = field(repr=False)
    token: str = field(repr=False)
    expires: datetime.datetime


def session_of(access_key: str) -> Session | None:
    """Return the user's session of a temporary access key, or None if it isn't a user's."""
    from moto.sts.models import sts_backends

    return _sessions(sts_backends[ACCOUNT]["aws"]).get(access_key)


def install() -> None:
    """Replace moto's user sessions."""
    from moto.iam.models import iam_backends
    from moto.sts.exceptions import STSClientError, STSValidationError
    from moto.sts.models import STSBackend
    from moto.sts.responses import TokenResponse
    from moto.sts.utils import random_session_token

    def get_session_token(response: Any) -> Any:
        backend, caller = response.backend, response.get_access_key()
        if caller in _sessions(backend) or backend.get_assumed_role_from_access_key(caller):
            raise STSClientError(
                "AccessDenied", "Cannot call GetSessionToken with session credentials"
            )
        seconds = response._get_int_param("DurationSeconds", _DEFAULT_SECONDS)
        if seconds not in _SECONDS:
            raise STSValidationError(
                f"1 validation error detected: Value '{seconds}' at 'durationSeconds' failed to "
                "satisfy constraint"
            )
        key = iam_backends[backend.account_id][backend.partition].create_temp_access_key()
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        session = Session(caller, key.secret_access_key, random_session_token(), expires)
        _sessions(backend)[key.access_key_id] = session
        credentials = {
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": session.secret,
            "SessionToken": session.token,
            "Expiration": expires,
        }
        return {"Credentials": credentials}

    @around(STSBackend, "get_caller_identity")
    def get_caller_identity(identity: Any, backend: Any, access_key_id: str, region: str) -> Any:
        session = _sessions(backend).get(access_key_id)
        return identity(backend, access_key_id if session is None else session.caller, region)

    add(TokenResponse, get_session_token)


def _sessions(backend: Any) -> dict[str, Session]:
    return backend.__dict__.setdefault("_embedded_sessions", {})
