"""One boto3 session for one region, with lazily created clients that raise typed errors."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from terradask._aws.caller import Caller
from terradask._aws.observing import make_observable
from terradask._aws.roles import Role, RoleSession, variables_for_programs
from terradask._aws.translation import (
    CREDENTIALS_ADVICE,
    EXPIRED,
    known_regions,
    time_of,
    translate_calls,
    translated,
    unknown_region,
)
from terradask._common.forked import left_to_parent
from terradask.errors import AccessDenied, NoCredentials
from terradask_host.bucket_calls import expect_owner, name_encryption, of_network
from terradask_modules.partitions import partition_of

if TYPE_CHECKING:
    from boto3.session import Session
    from botocore.credentials import Credentials, ReadOnlyCredentials
    from botocore.loaders import Loader


#: Largest object that is sent without waiting for S3's `100 Continue`.
_SMALL_BYTES = 2**20

#: A region that no account can disable.
_ALWAYS_ENABLED = "us-east-1"


@cache
def _models(data_path: str | None) -> Loader:
    """Return the loader of AWS's service models, shared by all sessions of the process: EC2's alone
    takes a tenth of a second.
    """
    from botocore.loaders import create_loader

    return create_loader(data_path)


def _utc_time(value: Any) -> datetime.datetime:
    """Return a time in AWS's answer in UTC; botocore's own parser uses this machine's zone."""
    from botocore.utils import parse_timestamp

    parsed: datetime.datetime = parse_timestamp(value)
    return parsed.astimezone(datetime.UTC)


def _send_at_once(params: Mapping[str, Any], **_: Any) -> None:
    """Send a small object with its request: botocore waits for `100 Continue`, a round trip."""
    from botocore.utils import determine_content_length

    size = determine_content_length(params["body"])
    if size is not None and size <= _SMALL_BYTES:
        params["headers"].pop("Expect", None)


class Aws:
    """AWS in one region, with the caller's credentials, or those of a role that they assume.

    Nothing is loaded or requested before the first use. Safe to use from several threads.
    """

    def __init__(
        self,
        region: str,
        *,
        profile: str | None = None,
        role: Role | None = None,
        attempts: int = 6,
    ) -> None:
        self.region = region
        self._attempts = attempts
        #: Profile in the caller's AWS configuration; None: boto3's default.
        self.profile = profile
        source = None if role is None else Aws(region, profile=profile, attempts=attempts)
        self._role = None if role is None or source is None else RoleSession(source, role)
        self._session: Session | None = None
        #: Buckets old enough that S3 misses no objects: set by `ObjectStore`.
        self.settled_buckets: set[str] = set()
        #: Bucket -> its required account. AWS (s3-owner). A bucket whose name
        #: contains the account needs no entry.
        self.bucket_owners: dict[str, str] = {}
        #: Seconds that this machine's clock is ahead of AWS's, by AWS's latest answer; 0 before
        #: the first one.
        self.clock_ahead_seconds = 0.0
        #: Action and resource of each refused call -> the kind of policy, if AWS names it. Also of
        #: calls that a command can do without.
        self.denied: dict[tuple[str, str | None], str | None] = {}
        self._clients: dict[str, Any] = {}
        self._lock = threading.RLock()
        self._caller = Caller(region, self.client, self._frozen_credentials, self._sts_elsewhere)
        _CONNECTED.add(self)

    def client(self, name: str) -> Any:
        """Return a service's cached client. Raises `NoCredentials`, `RegionUnusable`."""
        # An existing client doesn't wait for the creation of another, a tenth of a second.
        if (made := self._clients.get(name)) is not None:
            return made
        # Creating a client from a boto3 session is not thread-safe; using clients is.
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self._make_client(name)
            return self._clients[name]

    def credentials(self) -> Credentials:
        """Return botocore's credentials, which renew themselves. Raises `NoCredentials`."""
        with self._lock, translated(self.region):
            found = self._boto().get_credentials()
        if found is None:
            raise NoCredentials("there are no AWS credentials", advice=CREDENTIALS_ADVICE)
        return found

    def anew(self) -> Aws:
        """Return a copy with reloaded credentials."""
        copy = Aws(self.region, profile=self.profile, attempts=self._attempts)
        copy._role = None if self._role is None else self._role.anew()
        return copy

    def in_region(self, region: str, *, attempts: int | None = None) -> Aws:
        """Return AWS in another region, for the same caller."""
        there = Aws(region, profile=self.profile, attempts=attempts or self._attempts)
        there._role, there.denied = self._role, self.denied
        return there

    def variables(self) -> dict[str, str | None]:
        """Return variables with which programs call AWS as this object does; None for those to
        remove. Raises `NoCredentials`, `AccessDenied`.
        """
        role = self._role
        return variables_for_programs(self.profile, None if role is None else role.variables)

    @property
    def account_id(self) -> str:
        """The number of the caller's account. Needs no permission."""
        return self._caller.account_id

    @property
    def caller_arn(self) -> str:
        """The caller's ARN. Needs no permission."""
        return self._caller.arn

    @property
    def partition(self) -> str:
        """The partition in ARNs, such as ``aws`` or ``aws-cn``, by the region."""
        return partition_of(self.region)

    def expect_account(self) -> None:
        """Use the expected account until `confirm_account`, which saves a round trip."""
        self._caller.expect()

    def confirm_account(self) -> None:
        """Wait for AWS's answer about the account. Raises `InvalidCredentials` for another account
        than expected.
        """
        _ = self._caller.arn

    def check_region(self) -> None:
        """Refuse a region that AWS's SDK doesn't know. Raises `RegionUnusable`."""
        if self.region not in known_regions():
            raise unknown_region(self.region)

    def _make_client(self, name: str) -> Any:
        from botocore.config import Config

        self.check_region()
        with translated(self.region):
            session = self._boto()
            # Without this check, a missing login appears only at the first call.
            credentials = session.get_credentials()
            if credentials is None:
                raise NoCredentials("there are no AWS credentials", advice=CREDENTIALS_ADVICE)
            refuse_mfa(session, credentials.method)
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
        made.meta.events.register("after-call", self._compare_clocks)
        make_observable(made)
        return self._settle_s3(made) if name == "s3" else made

    def _settle_s3(self, client: Any) -> Any:
        client.meta.events.register_last("before-call.s3", _send_at_once)
        return name_encryption(expect_owner(client, self.bucket_owners), of_network)

    def _forget_expired(self, parsed: Mapping[str, Any], **_: Any) -> None:
        """Make the next client reload the credentials: boto3 reads them once."""
        if parsed.get("Error", {}).get("Code") in EXPIRED:
            with self._lock:
                self._session = None
                self._role = None if self._role is None else self._role.anew()
                self._clients.clear()

    def _compare_clocks(self, parsed: Mapping[str, Any], **_: Any) -> None:
        if (there := time_of(parsed)) is not None:
            ahead = datetime.datetime.now(datetime.UTC) - there
            # Transit takes time, and the date has no fractions.
            self.clock_ahead_seconds = float(int(ahead.total_seconds()))

    def _note_denied(self, error: AccessDenied) -> None:
        self.denied[error.action, error.resource] = error.by

    def _boto(self) -> Session:
        if self._session is None:
            import boto3
            import botocore.session

            core = botocore.session.get_session()
            core.register_component("data_loader", _models(core.get_config_variable("data_path")))
            parsers = core.get_component("response_parser_factory")
            parsers.set_parser_defaults(timestamp_parser=_utc_time)
            if self._role is not None:
                core.register_component("credential_provider", self._role.resolver())
            session = boto3.Session(
                botocore_session=core, region_name=self.region, profile_name=self.profile
            )
            translate_calls(session, self.region, self._note_denied)
            self._session = session
        return self._session

    def _frozen_credentials(self) -> ReadOnlyCredentials:
        credentials = self.credentials()
        with translated(self.region):
            return credentials.get_frozen_credentials()

    def _sts_elsewhere(self) -> Any:
        if partition_of(self.region) != "aws" or self.region == _ALWAYS_ENABLED:
            return None
        return self.in_region(_ALWAYS_ENABLED).client("sts")


def _forget_connections(aws: Aws) -> None:
    """Open new connections: requests of two processes would mix on a shared one."""
    aws._lock = threading.RLock()
    aws._caller.forked()
    aws._clients, aws._session = {}, None
    aws._role = None if aws._role is None else aws._role.anew()


_CONNECTED = left_to_parent(_forget_connections)


# ---- profiles that require an MFA code -----------------------------------------------------------


def refuse_mfa(session: Session, method: str) -> None:
    """Refuse a role's profile that requires an MFA code. Raises `NoCredentials`.

    boto3 would ask in each new session, and Terraform's provider can't ask:
    https://github.com/hashicorp/terraform-provider-aws/issues/2420

    Parameters
    ----------
    session
        The session, with known but unused credentials.
        method
        boto3's name of the credentials' source.
    """
    if method != "assume-role":
        return
    # boto3 has no public name for its configuration.
    device = session._session.get_scoped_config().get("mfa_serial")
    if device is None:
        return
    profile = session.profile_name
    raise NoCredentials(
        "the profile requires an MFA code, which Terraform can't ask for",
        given=f"{profile}: mfa_serial = {device}",
        allowed="credentials that need no code",
        advice=(
            "enter the code first, for this terminal: "
            f'eval "$(aws configure export-credentials --profile {profile} --format env)"; '
            "unset AWS_PROFILE"
        ),
    )
