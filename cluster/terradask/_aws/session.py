"""One boto3 session for one region: clients made when needed, and AWS's refusals as typed errors."""

from __future__ import annotations

import datetime
import difflib
import email.utils
import functools
import ipaddress
import os
import re
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from terradask._common.clock import utc_text
from terradask.errors import (
    AccessDenied,
    AwsError,
    ClockSkewed,
    EndpointUnreachable,
    ExpiredCredentials,
    InvalidCredentials,
    NoCredentials,
    RegionUnknown,
)

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.credentials import Credentials

ENDPOINT_VARIABLE = "AWS_ENDPOINT_URL"

CREDENTIALS_ADVICE = (
    "log in (`aws sso login`, `aws configure`), name a profile (AWS_PROFILE), or set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_INVALID = frozenset({
    "InvalidClientTokenId", "UnrecognizedClientException", "AuthFailure", "SignatureDoesNotMatch", "InvalidAccessKeyId",
    "InvalidToken",
})  # fmt: skip
#: In AWS's words, where it doesn't take the time of a signature: "Signature expired: …", "Signature not yet current: …".
SKEWED = re.compile(r"RequestTimeTooSkewed|Signature (?:expired|not yet current)")
CLOCK_ADVICE = "set this machine's clock, and have it kept (NTP); a virtual machine or WSL that slept may need a restart"
#: More than a slow answer explains.
_SKEW_SECONDS = 300

_DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})
_ACTION = re.compile(r"not authorized to perform:? ([a-zA-Z0-9-]+:[A-Za-z*]+)")


def is_loopback_endpoint(environ: Mapping[str, str]) -> bool:
    """Tell whether ``AWS_ENDPOINT_URL`` names an address of this machine alone: an embedded AWS, not the real one."""
    host = urlsplit(environ.get(ENDPOINT_VARIABLE, "")).hostname
    if not host:
        return False
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


class Aws:
    """AWS in one region, with the caller's credentials.

    Notes
    -----
    Nothing is loaded and nobody is asked before the first use. Safe to use from several threads.
    """

    def __init__(self, region: str, *, profile: str | None = None, attempts: int = 6) -> None:
        self.region = region
        self._attempts = attempts
        self._profile = profile
        self._session: Session | None = None
        self._clients: dict[str, Any] = {}
        self._identity: dict[str, str] | None = None
        self._lock = threading.RLock()

    def client(self, name: str) -> Any:
        """Return the boto3 client for a service, made once.

        Raises
        ------
        NoCredentials
            If there are no credentials.
        RegionUnknown
            If the SDK knows no such region, with the nearest that it knows.
        """
        # boto3 sessions are not safe while a client is being made; clients are.
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._make_client(name)
            return self._clients[name]

    def credentials(self) -> Credentials:
        """Return botocore's own object of the caller's credentials, which renews them where it can.

        Raises
        ------
        NoCredentials
            If there are none.
        """
        with self._lock, self.explained():
            found = self._boto().get_credentials()
        if found is None:
            raise NoCredentials("there are no AWS credentials", advice=CREDENTIALS_ADVICE)
        return found

    def anew(self) -> Aws:
        """Return the same with credentials that are looked up again."""
        return Aws(self.region, profile=self._profile, attempts=self._attempts)

    @property
    def profile(self) -> str | None:
        """Profile of the caller's AWS configuration; None: as boto3 finds credentials."""
        return self._profile

    @property
    def account_id(self) -> str:
        """The number of the caller's account. Needs no permission."""
        return self._caller()["Account"]

    @property
    def caller_arn(self) -> str:
        """The caller's ARN. Needs no permission."""
        return self._caller()["Arn"]

    @property
    def partition(self) -> str:
        """The first part of every ARN: ``aws``, ``aws-cn`` or ``aws-us-gov``."""
        return self.caller_arn.split(":")[1]

    def check_region(self) -> None:
        """Refuse a region that AWS's SDK doesn't know. Nobody is asked.

        Raises
        ------
        RegionUnknown
            With the nearest that it knows.
        """
        known = _regions()
        if self.region not in known:
            raise self._unknown_region(known)

    @contextmanager
    def explained(self) -> Iterator[None]:
        """Turn what boto3 raises inside into errors that say what to do.

        Raises
        ------
        NoCredentials, ExpiredCredentials, InvalidCredentials, ClockSkewed, AccessDenied, RegionUnknown, EndpointUnreachable
            For boto3's errors of these kinds; every other error passes unchanged.
        """
        from botocore.exceptions import BotoCoreError, ClientError

        try:
            yield
        except (BotoCoreError, ClientError, RuntimeError) as error:
            explained = self.explain(error)
            if explained is None:
                raise
            raise explained from error

    def explain(self, error: Exception) -> AwsError | None:
        """Return the typed error for one of boto3's, or None where there is none."""
        from botocore import exceptions as boto

        if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError | boto.ProfileNotFound):
            return NoCredentials(f"no AWS credentials: {error}", advice=CREDENTIALS_ADVICE)
        expired = boto.CredentialRetrievalError | boto.TokenRetrievalError | boto.SSOTokenLoadError | boto.UnauthorizedSSOTokenError
        # A RuntimeError is what botocore raises where it has renewed them, and the newer ones have expired, too.
        if isinstance(error, expired) or (isinstance(error, RuntimeError) and "still expired" in str(error)):
            return ExpiredCredentials(f"the AWS login has expired: {error}", advice=CREDENTIALS_ADVICE)
        if isinstance(error, boto.EndpointConnectionError | boto.ConnectTimeoutError | boto.ConnectionError):
            return self._unreachable(error)
        if isinstance(error, boto.InvalidRegionError):
            return self._unknown_region(known=_regions())
        if isinstance(error, boto.ClientError):
            return self._refused(error)
        return None

    def _make_client(self, name: str) -> Any:
        with self.explained():
            from botocore.config import Config

            self.check_region()
            session = self._boto()
            # Without this check, a missing login shows at the first call only, in the middle of something.
            if session.get_credentials() is None:
                raise NoCredentials("there are no AWS credentials", advice=CREDENTIALS_ADVICE)
            config = Config(
                retries={"mode": "standard", "total_max_attempts": self._attempts},
                connect_timeout=5,
                read_timeout=60,
                max_pool_connections=32,
                user_agent_extra="terradask",
            )
            make: Any = session.client
            made = make(name, config=config)
            made.meta.events.register("after-call", self._forget_expired)
            return made

    def _forget_expired(self, parsed: Mapping[str, Any], **_: Any) -> None:
        """Have the next client read the credentials anew: boto3 reads those of a file or of the environment once."""
        if parsed.get("Error", {}).get("Code") in EXPIRED:
            with self._lock:
                self._session = None
                self._clients.clear()

    def _boto(self) -> Session:
        if self._session is None:
            import boto3

            self._session = boto3.Session(region_name=self.region, profile_name=self._profile)
        return self._session

    def _caller(self) -> dict[str, str]:
        with self._lock:
            if self._identity is None:
                client = self.client("sts")
                with self.explained():
                    self._identity = client.get_caller_identity()
            return self._identity

    def _refused(self, error: Any) -> AwsError | None:
        code = error.response.get("Error", {}).get("Code", "")
        message = error.response.get("Error", {}).get("Message", "")
        clocks = _clocks(error.response)
        if SKEWED.search(f"{code} {message}") or (clocks and code in EXPIRED | _INVALID):
            return ClockSkewed(
                "AWS doesn't take what this machine signs: its clock is wrong",
                given=clocks or message or code,
                allowed="15 minutes from AWS's at most",
                advice=CLOCK_ADVICE,
            )
        if code in EXPIRED:
            return ExpiredCredentials("the AWS credentials have expired", given=message or code, advice=CREDENTIALS_ADVICE)
        if code in _INVALID:
            return InvalidCredentials(
                f"AWS doesn't accept the credentials in {self.region}",
                given=message or code,
                advice=f"{CREDENTIALS_ADVICE}; a region such as {self.region} may have to be enabled for the account",
            )
        if code in _DENIED:
            named = _ACTION.search(message)
            return AccessDenied(named[1] if named else error.operation_name, message or code)
        return None

    def _unreachable(self, error: Exception) -> AwsError:
        endpoint = os.environ.get(ENDPOINT_VARIABLE)
        known = _regions()
        if not endpoint and self.region not in known:
            return self._unknown_region(known)
        return EndpointUnreachable(
            "AWS doesn't answer",
            given=str(error),
            advice=f"is the embedded AWS at {endpoint} still running?" if endpoint else "check the network, a proxy, a VPN",
        )

    def _unknown_region(self, known: tuple[str, ...]) -> RegionUnknown:
        near = difflib.get_close_matches(self.region, known, 3, 0.5) or list(known[:5])
        return RegionUnknown(
            "there is no such AWS region",
            given=self.region,
            allowed=", ".join(near) + ", …",
            advice="correct workspace.region, or the argument that says it; a newer botocore knows newer regions",
        )


def _clocks(response: Mapping[str, Any]) -> str | None:
    """Return what this machine's clock and AWS's said at an answer, where they differ by more than the answer took."""
    try:
        there = email.utils.parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, TypeError, ValueError):
        return None
    here = datetime.datetime.now(datetime.UTC)
    differ = there.tzinfo is not None and abs((here - there).total_seconds()) > _SKEW_SECONDS
    return f"{utc_text(here)} here, {utc_text(there)} at AWS" if differ else None


@functools.cache
def _regions() -> tuple[str, ...]:
    """Return the regions that the SDK knows, out of the small one of its lists: asking a session takes a quarter of a second."""
    from botocore.loaders import create_loader

    partitions = create_loader().load_data("partitions")["partitions"]
    return tuple(sorted(name for partition in partitions for name in partition["regions"] if not name.endswith("-global")))
