"""Sessions of users: ``GetSessionToken`` gives keys that belong to the caller, for no longer than
AWS does.

moto gives every caller the same example, which belongs to no user, for any time, also callers with
temporary credentials.
"""

from __future__ import annotations

import datetime
from typing import Any

__all__ = ["install", "key_behind"]

#: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetSessionToken.html
_SECONDS = range(900, 129_600 + 1)
_DEFAULT_SECONDS = 43_200


def key_behind(access_key: str) -> str | None:
    """Return the long-lived access key by which a session's was asked for, or None where it is no
    session's.
    """
    from moto.sts.models import sts_backends

    from terradask_simulator.aws.account import ACCOUNT

    return _keys_behind(sts_backends[ACCOUNT]["aws"]).get(access_key)


def install() -> None:
    """Replace moto's sessions of users."""
    from moto.core.responses import ActionResult
    from moto.sts.exceptions import STSClientError, STSValidationError
    from moto.sts.models import STSBackend
    from moto.sts.responses import TokenResponse
    from moto.sts.utils import random_session_token

    identity = STSBackend.get_caller_identity

    def get_session_token(response: Any) -> Any:
        backend, caller = response.backend, response.get_access_key()
        if caller in _keys_behind(backend) or backend.get_assumed_role_from_access_key(caller):
            raise STSClientError(
                "AccessDenied", "Cannot call GetSessionToken with session credentials"
            )
        seconds = response._get_int_param("DurationSeconds", _DEFAULT_SECONDS)
        if seconds not in _SECONDS:
            raise STSValidationError(
                f"1 validation error detected: Value '{seconds}' at 'durationSeconds' failed "
                "to "
                "satisfy constraint"
            )
        key = _temporary_key(backend)
        expires = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
        _keys_behind(backend)[key.access_key_id] = caller
        credentials = {
            "AccessKeyId": key.access_key_id,
            "SecretAccessKey": key.secret_access_key,
            "SessionToken": random_session_token(),
            "Expiration": expires,
        }
        return ActionResult({"Credentials": credentials})

    def get_caller_identity(backend: Any, access_key_id: str, region: str) -> tuple[str, str, str]:
        found: tuple[str, str, str] = identity(
            backend, _keys_behind(backend).get(access_key_id, access_key_id), region
        )
        return found

    TokenResponse.get_session_token = get_session_token
    STSBackend.get_caller_identity = get_caller_identity


def _keys_behind(backend: Any) -> dict[str, str]:
    if not hasattr(backend, "_embedded_sessions"):
        backend._embedded_sessions = {}
    keys: dict[str, str] = backend._embedded_sessions
    return keys


def _temporary_key(backend: Any) -> Any:
    from moto.iam.models import iam_backends

    return iam_backends[backend.account_id][backend.partition].create_temp_access_key()
