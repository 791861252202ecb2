"""Translate boto3's exceptions into terradask's typed errors, in every client."""

from __future__ import annotations

import datetime
import difflib
import email.utils
import functools
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from terradask._aws.denied import refused_action, refused_resource, refuser
from terradask._aws.endpoints import ENDPOINT_VARIABLE
from terradask._common.clock import utc_text
from terradask.errors import (
    AccessDenied,
    AwsError,
    EndpointUnreachable,
    InvalidCredentials,
    NoCredentials,
    RegionUnusable,
    TerradaskError,
)
from terradask_host.end_once import THROTTLED

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.exceptions import ClientError

CREDENTIALS_ADVICE = (
    "log in (`aws sso login`, `aws configure`), name a profile (AWS_PROFILE), or "
    "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
)
CLOCK_ADVICE = (
    "set this machine's clock, and synchronise it (NTP); a virtual machine or WSL that "
    "slept may need a restart"
)

EXPIRED = frozenset({"ExpiredToken", "ExpiredTokenException", "RequestExpired"})
_INVALID = frozenset(
    {
        "InvalidClientTokenId",
        "UnrecognizedClientException",
        "AuthFailure",
        "SignatureDoesNotMatch",
        "InvalidAccessKeyId",
        "InvalidToken",
    }
)
#: AWS's messages about a signature's wrong time: "Signature expired: …", "… not yet current: …".
SKEWED = re.compile(r"RequestTimeTooSkewed|Signature (?:expired|not yet current)")
#: More than a slow answer explains.
_SKEW_SECONDS = 300

#: AWS (documented): S3 passes on the codes of KMS for a key that is disabled, scheduled for
#: deletion or deleted, such as KMS.DisabledException; Secrets Manager answers DecryptionFailure or
#: EncryptionFailure. https://docs.aws.amazon.com/kms/latest/developerguide/key-state.html
_KEY_REFUSED = re.compile(r"KMS|^(?:De|En)cryptionFailure$")

DENIED = frozenset({"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"})


def translate_calls(
    session: Session, region: str, on_denied: Callable[[AccessDenied], None]
) -> None:
    """Make every later client of a session raise typed errors, paginators and waiters included.

    Each is chained from boto3's; errors without a typed counterpart stay boto3's. This uses boto3's
    extension point, its events. `on_denied` gets each refusal, also those that are caught later.
    """

    class TranslatedCalls:
        def _make_api_call(self, operation_name: str, api_params: Mapping[str, Any]) -> Any:
            service = self.meta.service_model.signing_name  # type: ignore[attr-defined]
            # S3's operations have other names than its permissions.
            try:
                with translated(region, "" if service == "s3" else service):
                    return super()._make_api_call(operation_name, api_params)  # type: ignore[misc]
            except AccessDenied as error:
                on_denied(error)
                raise

    def extend(base_classes: list[type], **_: Any) -> None:
        base_classes.insert(0, TranslatedCalls)

    session.events.register("creating-client-class", extend)


@contextmanager
def translated(region: str, service: str = "") -> Iterator[None]:
    """Raise typed errors inside boto3, outside of clients: for sessions and their credentials.
    Errors unknown to `typed_error` pass unchanged.

    The service's IAM prefix is added to the action of a refusal without one.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    try:
        yield
    except (BotoCoreError, ClientError, RuntimeError, json.JSONDecodeError) as error:
        typed = typed_error(error, region, service)
        if typed is None:
            raise
        raise typed from error


def typed_error(error: Exception, region: str, service: str = "") -> AwsError | None:
    """Return the typed error for one of boto3's, or None."""
    from botocore import exceptions as boto

    if (unset := _unusable_here(error)) is not None:
        return unset
    expired = (
        boto.CredentialRetrievalError
        | boto.TokenRetrievalError
        | boto.SSOTokenLoadError
        | boto.UnauthorizedSSOTokenError
    )
    # botocore raises RuntimeError if renewed credentials have expired too.
    if isinstance(error, expired) or (
        isinstance(error, RuntimeError) and "still expired" in str(error)
    ):
        return NoCredentials(f"the AWS login has expired: {error}", advice=CREDENTIALS_ADVICE)
    # Other errors of its kind are about missing or broken responses.
    if isinstance(error, boto.ConnectionError | boto.HTTPClientError):
        return _unreachable(error, region)
    if isinstance(error, boto.InvalidRegionError):
        return unknown_region(region)
    if isinstance(error, boto.ClientError):
        return _refused(error, region, service)
    return None


def _unusable_here(error: Exception) -> NoCredentials | None:
    """Return the error for missing or wrong local AWS files."""
    from botocore import exceptions as boto

    if isinstance(error, boto.ProfileNotFound):
        return NoCredentials(
            f"no AWS credentials: {error}",
            advice="correct workspace.profile, or AWS_PROFILE; `aws configure list-profiles` lists "
            "the profiles",
        )
    if isinstance(error, boto.NoCredentialsError | boto.PartialCredentialsError):
        return NoCredentials(f"no AWS credentials: {error}", advice=CREDENTIALS_ADVICE)
    if isinstance(
        error,
        boto.ConfigParseError
        | boto.ConfigNotFound
        | boto.InvalidConfigError
        | boto.InfiniteLoopConfigError
        | boto.UnknownCredentialError,
    ):
        return NoCredentials(
            f"AWS's configuration on this machine can't be used: {error}",
            advice="correct ~/.aws/config, or the file that AWS_CONFIG_FILE names; or name another "
            "profile (AWS_PROFILE)",
        )
    if isinstance(error, json.JSONDecodeError):
        return NoCredentials(
            f"the profile's credential_process prints no valid JSON: {error}",
            advice="run the command that ~/.aws/config names by hand; or name another profile "
            "(AWS_PROFILE)",
        )
    return None


def reason_of(error: Exception) -> str:
    """Return the reason of a failed call in one line."""
    message = error.problem if isinstance(error, TerradaskError) else str(error)
    return " ".join(message.split())


def is_transient(error: BaseException) -> bool:
    """Return whether a failure is temporary: a network problem, a busy AWS."""
    from botocore.exceptions import ClientError, HTTPClientError

    if isinstance(error, AwsError) and error.__cause__ is not None:
        return is_transient(error.__cause__)
    if isinstance(error, ClientError):
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        # Expired credentials may be renewed meanwhile.
        return error.response["Error"].get("Code") in THROTTLED | EXPIRED or status >= 500
    return isinstance(error, OSError | HTTPClientError) and not isinstance(error, InterruptedError)


def unknown_region(region: str) -> RegionUnusable:
    """Return the error for an unknown region, with similar known ones."""
    known = known_regions()
    near = difflib.get_close_matches(region, known, 3, 0.5) or list(known[:5])
    return RegionUnusable(
        "there is no such AWS region",
        given=region,
        allowed=", ".join(near) + ", …",
        advice=(
            "correct workspace.region, or the argument with it; a newer botocore knows "
            "newer regions"
        ),
    )


@functools.cache
def known_regions() -> tuple[str, ...]:
    """Return the SDK's regions, from its small list: a session takes 250 ms."""
    from botocore.loaders import create_loader

    partitions = create_loader().load_data("partitions")["partitions"]
    return tuple(
        sorted(
            name
            for partition in partitions
            for name in partition["regions"]
            if not name.endswith("-global")
        )
    )


def _refused(error: ClientError, region: str, service: str) -> AwsError | None:
    code = error.response.get("Error", {}).get("Code", "")
    message = error.response.get("Error", {}).get("Message", "")
    clocks = _clocks(error.response)
    if SKEWED.search(f"{code} {message}") or (clocks and code in EXPIRED | _INVALID):
        return AwsError(
            "AWS rejects this machine's requests: its clock is wrong",
            given=clocks or message or code,
            allowed="at most 15 minutes from AWS's clock",
            advice=CLOCK_ADVICE,
        )
    if code in EXPIRED:
        return NoCredentials(
            "the AWS credentials have expired", given=message or code, advice=CREDENTIALS_ADVICE
        )
    if code in _INVALID:
        return InvalidCredentials(
            f"AWS doesn't accept the credentials in {region}",
            given=message or code,
            advice=(
                f"{CREDENTIALS_ADVICE}; a region such as {region} may have to be enabled for "
                "the account"
            ),
        )
    if _KEY_REFUSED.search(code):
        return AwsError(
            "AWS can't use the workspace's encryption key",
            given=f"{code}: {message}",
            allowed="a KMS key that is enabled, and that callers and hosts may use",
            advice=(
                "enable the key (aws kms enable-key), or cancel its deletion (aws kms "
                "cancel-key-deletion, then enable-key); terradask doctor shows what its "
                "policy lacks. Until then booting hosts fail, and running ones continue"
            ),
        )
    if code in DENIED:
        called = f"{service}:{error.operation_name}" if service else error.operation_name
        return AccessDenied(
            refused_action(message) or called,
            message or code,
            resource=refused_resource(message),
            by=refuser(message),
        )
    return None


def _unreachable(error: Exception, region: str) -> AwsError:
    endpoint = os.environ.get(ENDPOINT_VARIABLE)
    if not endpoint and region not in known_regions():
        return unknown_region(region)
    return EndpointUnreachable(
        "AWS doesn't answer",
        given=str(error),
        advice=f"is the embedded AWS at {endpoint} still running?" if endpoint else _way_out(error),
    )


def _way_out(error: Exception) -> str:
    """Return the parts of the network to check."""
    from urllib.request import getproxies

    from botocore.exceptions import SSLError

    proxy = urlsplit(getproxies().get("https", ""))
    where = (
        f"the proxy {proxy.hostname}:{proxy.port} (HTTPS_PROXY)" if proxy.hostname else "a proxy"
    )
    if isinstance(error, SSLError):
        return (
            f"{where} may show certificates of its own: name the file with its authority in "
            "AWS_CA_BUNDLE"
        )
    return f"check the network, {where}, a VPN"


def time_of(response: Mapping[str, Any]) -> datetime.datetime | None:
    """Return AWS's time of an answer, in whole seconds; None if it is missing."""
    try:
        at = email.utils.parsedate_to_datetime(response["ResponseMetadata"]["HTTPHeaders"]["date"])
    except (KeyError, TypeError, ValueError):
        return None
    return None if at.tzinfo is None else at


def _clocks(response: Mapping[str, Any]) -> str | None:
    """Return this machine's time and AWS's, if they differ by more than the answer took."""
    here, there = datetime.datetime.now(datetime.UTC), time_of(response)
    if there is None or abs((here - there).total_seconds()) <= _SKEW_SECONDS:
        return None
    return f"{utc_text(here)} here, {utc_text(there)} at AWS"
