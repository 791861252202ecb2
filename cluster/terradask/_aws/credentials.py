"""Temporary credentials of the caller for a cluster."""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from terradask._aws.session import Aws
from terradask._aws.translation import translated
from terradask.errors import AccessDenied, InvalidInput

if TYPE_CHECKING:
    from botocore.credentials import Credentials

#: AWS (documented, sts-session-seconds): STS GetSessionToken gives a user credentials for 900 to
#: 129,600 seconds, by default for 12 hours.
#: https://docs.aws.amazon.com/STS/latest/APIReference/API_GetSessionToken.html
SHORTEST_SECONDS = 900
LONGEST_SECONDS = 129_600

#: Assumed lifetime of temporary credentials without an expiry: they are read again halfway.
_UNTOLD_SECONDS = 3600

_WITHOUT = (
    "; or leave credentials out: then tasks use the instance role, and "
    "network.data_buckets lists what that may read"
)


@dataclass(frozen=True, repr=False)
class LentCredentials:
    """Temporary credentials. Their repr shows only the expiry."""

    access_key_id: str
    secret_access_key: str
    session_token: str
    expires_at: datetime.datetime

    def __repr__(self) -> str:
        return f"LentCredentials(expires_at={self.expires_at:%Y-%m-%dT%H:%M:%SZ})"

    def document(self) -> dict[str, str]:
        """Return them in the form of AWS SDKs' credential endpoint."""
        return {
            "AccessKeyId": self.access_key_id,
            "SecretAccessKey": self.secret_access_key,
            "Token": self.session_token,
            "Expiration": f"{self.expires_at:%Y-%m-%dT%H:%M:%SZ}",
        }


def check_duration(seconds: int | None) -> int | None:
    """Return the duration of lent credentials in seconds. Raises `InvalidInput`."""
    whole = isinstance(seconds, int) and not isinstance(seconds, bool)
    if seconds is not None and not (whole and SHORTEST_SECONDS <= seconds <= LONGEST_SECONDS):
        raise InvalidInput(
            "AWS issues no credentials for this duration.",
            given=f"credentials_duration_seconds={seconds!r}",
            allowed=(
                f"a whole number of seconds from {SHORTEST_SECONDS} (15 minutes) to "
                f"{LONGEST_SECONDS} (36 hours)"
            ),
            advice=(
                "leave it out for 12 hours; they are renewed in time while the Cluster object is "
                "open"
            ),
        )
    return seconds


def lend(aws: Aws, duration_seconds: int | None) -> LentCredentials:
    """Return temporary credentials of the caller.

    For an IAM user's access key they are a new session (``sts:GetSessionToken``). Credentials that
    are temporary already, such as those of a role or of IAM Identity Center, are returned
    unchanged.

    Raises `NoCredentials`, `InvalidCredentials`, `AccessDenied`.

    Permissions needed: none. AWS (sts-who-am-i)

    AWS (documented): STS GetSessionToken needs no permission, and only a denial prevents it.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_control-access_getsessiontoken.html
    """
    held = aws.credentials()
    if _expiry(held) is None:
        # Renewal may have asked for an MFA code; other credentials may be in a changed file.
        aws = aws.anew()
        held = aws.credentials()
    with translated(aws.region):
        frozen: Any = held.get_frozen_credentials()
    if not frozen.token:
        return _session(aws, duration_seconds)
    # Expired credentials must fail here, not in tasks.
    aws.client("sts").get_caller_identity()
    until = _expiry(held) or datetime.datetime.now(datetime.UTC) + datetime.timedelta(
        seconds=_UNTOLD_SECONDS
    )
    return LentCredentials(
        frozen.access_key, frozen.secret_key, frozen.token, until.astimezone(datetime.UTC)
    )


def _session(aws: Aws, duration_seconds: int | None) -> LentCredentials:
    asked = {} if duration_seconds is None else {"DurationSeconds": duration_seconds}
    try:
        made = aws.client("sts").get_session_token(**asked)["Credentials"]
    except AccessDenied as error:
        error.advice = f"{error.advice}{_WITHOUT}"
        raise
    return LentCredentials(
        made["AccessKeyId"],
        made["SecretAccessKey"],
        made["SessionToken"],
        made["Expiration"].astimezone(datetime.UTC),
    )


def _expiry(held: Credentials) -> datetime.datetime | None:
    """Return the expiry of credentials that botocore renews; it has no public name for it."""
    return getattr(held, "_expiry_time", None)
