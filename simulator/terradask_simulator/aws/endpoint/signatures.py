"""Signatures that AWS no longer takes: of temporary credentials that have expired, and of machines
whose clock is wrong.
"""

from __future__ import annotations

import datetime
from dataclasses import replace
from email.utils import format_datetime

from terradask_simulator.aws.iam.operation import Operation
from terradask_simulator.aws.iam.refusals import Refusal, worded

__all__ = ["Signatures"]

#: AWS takes no signature that is older, or younger:
#: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/errors-overview.html
_TAKEN = datetime.timedelta(minutes=15)
_STAMP = "%Y%m%dT%H%M%SZ"


class Signatures:
    """What is refused for its signature; nothing at first. Not for several threads at once."""

    def __init__(self) -> None:
        self.expired: set[str] = set()
        self.ahead_seconds = 0.0

    def check(self, operation: Operation) -> Refusal | None:
        """Return the refusal of a call that is signed too early, too late, or with credentials that
        have expired.
        """
        if self.ahead_seconds and operation.access_key:
            refusal = self._check_time(
                operation,
                datetime.datetime.now(datetime.UTC)
                + datetime.timedelta(seconds=self.ahead_seconds),
            )
            if refusal is not None:
                return refusal
        return _expired(operation) if operation.access_key in self.expired else None

    def _check_time(self, operation: Operation, now: datetime.datetime) -> Refusal | None:
        try:
            signed_at = datetime.datetime.strptime(operation.headers["x-amz-date"], _STAMP).replace(
                tzinfo=datetime.UTC
            )
        except (KeyError, ValueError):
            return None
        if abs(now - signed_at) <= _TAKEN:
            return None
        refusal = _skewed(operation, signed_at, now)
        return replace(
            refusal, headers=(*refusal.headers, ("Date", format_datetime(now, usegmt=True)))
        )


def _expired(operation: Operation) -> Refusal:
    # https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html
    if operation.service == "s3":
        return worded(
            operation, "ExpiredToken", "The provided token has expired.", "400 Bad Request"
        )
    if operation.protocol == "ec2":
        return worded(operation, "RequestExpired", "Request has expired.", "400 Bad Request")
    code = "ExpiredTokenException" if operation.protocol == "json" else "ExpiredToken"
    return worded(operation, code, "The security token included in the request is expired")


def _skewed(operation: Operation, signed_at: datetime.datetime, now: datetime.datetime) -> Refusal:
    if operation.service == "s3":
        return worded(
            operation,
            "RequestTimeTooSkewed",
            "The difference between the request time and the current time is too large.",
        )
    if operation.protocol == "ec2":
        return worded(operation, "RequestExpired", "Request has expired.", "400 Bad Request")
    # The words: https://github.com/EngineerBetter/control-tower/issues/51
    bound = now - _TAKEN if signed_at < now else now + _TAKEN
    sign, said = (
        ("-", "expired: {} is now earlier than")
        if signed_at < now
        else ("+", "not yet current: {} is still later than")
    )
    when = (
        f"{said.format(f'{signed_at:{_STAMP}}')} {bound:{_STAMP}} ({now:{_STAMP}} {sign} 15 min.)"
    )
    code = "InvalidSignatureException" if operation.protocol == "json" else "SignatureDoesNotMatch"
    return worded(operation, code, f"Signature {when}")
