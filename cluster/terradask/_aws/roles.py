"""The role that a workspace's settings name: its credentials, from those of the caller."""

from __future__ import annotations

import datetime
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol, Self

from terradask.errors import (
    AccessDenied,
    InvalidCredentials,
    InvalidInput,
    NoCredentials,
)

if TYPE_CHECKING:
    from botocore.credentials import CredentialResolver, Credentials

#: AWS (documented): STS takes names of sessions of 2 to 64 letters, digits and =,.@_+-.
#: https://docs.aws.amazon.com/STS/latest/APIReference/API_AssumeRole.html
_NAME_LENGTHS = (2, 64)
_UNNAMED = re.compile(r"[^A-Za-z0-9_+=,.@-]")

#: Least time that a program's credentials last: it can't renew them.
#: AWS (documented): A role's session lasts an hour by default, and never longer if a role's
#: session assumed the role.
#: https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use.html
_PROGRAM_TIME = datetime.timedelta(minutes=45)

#: Variables by which AWS's SDKs find credentials, or a profile that has some.
#: AWS (documented): Credentials in variables come before the profile that AWS_PROFILE names.
#: https://docs.aws.amazon.com/sdkref/latest/guide/standardized-credentials.html
_SOURCES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_SECURITY_TOKEN",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_ROLE_ARN",
    "AWS_PROFILE",
    "AWS_DEFAULT_PROFILE",
)


#: The name of these credentials' source, for botocore.
_METHOD = "assume-role-of-settings"


@dataclass(frozen=True)
class Role:
    """A role to assume.

    Parameters
    ----------
    arn
        Its ARN.
    external_id
        The external ID that its trust policy asks for, if it does.
    origin
        Where the ARN is written, for messages.
    accounts
        The accounts beside the caller's that the role may belong to. None: any.
    """

    arn: str
    external_id: str | None = None
    origin: str = "workspace.role_arn"
    accounts: frozenset[str] | None = None

    @property
    def account(self) -> str:
        """The role's account."""
        return self.arn.split(":")[4]


class Source(Protocol):
    """AWS with the credentials that assume a role: `terradask._aws.session.Aws`."""

    @property
    def account_id(self) -> str: ...
    @property
    def caller_arn(self) -> str: ...
    def client(self, name: str) -> Any: ...
    def anew(self) -> Self: ...


class RoleSession:
    """A role's session, renewed before it ends. Safe to use from several threads.

    Permissions needed: ``sts:AssumeRole`` on the role, by a policy of the caller's account if the
    role is another account's, and by the role's trust policy.

    Parameters
    ----------
    source
        AWS with the credentials that assume the role.
    """

    def __init__(self, source: Source, role: Role) -> None:
        self._source = source
        self.role = role
        self._lock = threading.Lock()
        self._held: Mapping[str, str] | None = None

    @cached_property
    def credentials(self) -> Credentials:
        """Botocore's credentials, which renew themselves."""
        from botocore.credentials import RefreshableCredentials

        # Assumed here: where a renewal fails, botocore logs the traceback.
        renewing: Any = RefreshableCredentials
        made: Credentials = renewing.create_from_metadata(self._assume(), self._assume, _METHOD)
        return made

    def anew(self) -> RoleSession:
        """Return a copy with reloaded credentials."""
        return RoleSession(self._source.anew(), self.role)

    def resolver(self) -> CredentialResolver:
        """Return what finds a session's credentials, for botocore."""
        from botocore.credentials import CredentialProvider, CredentialResolver

        session = self

        class OfSettings(CredentialProvider):
            METHOD = _METHOD

            def load(self) -> Credentials:
                return session.credentials

        provider: Any = OfSettings()
        return CredentialResolver([provider])

    def variables(self) -> dict[str, str]:
        """Return credentials for a program, as variables; they last for most of an hour.

        Raises `AccessDenied`, `NoCredentials`, `InvalidInput`.
        """
        with self._lock:
            if self._held is None or _ends_soon(self._held):
                self._held = self._assume()
            return {
                "AWS_ACCESS_KEY_ID": self._held["access_key"],
                "AWS_SECRET_ACCESS_KEY": self._held["secret_key"],
                "AWS_SESSION_TOKEN": self._held["token"],
            }

    def _assume(self) -> dict[str, str]:
        """Assume the role, and return its credentials in botocore's form."""
        role = self.role
        try:
            self._check_account()
            caller = self._source.caller_arn
            sts = self._source.client("sts")
        except (NoCredentials, InvalidCredentials) as error:
            error.advice = (
                f"{error.advice}; these credentials are to assume {role.arn} ({role.origin})"
            )
            raise
        asked = {} if role.external_id is None else {"ExternalId": role.external_id}
        try:
            answer = sts.assume_role(
                RoleArn=role.arn, RoleSessionName=session_name(caller), **asked
            )
        except AccessDenied as error:
            raise _refused(error, role, caller) from error
        made = answer["Credentials"]
        return {
            "access_key": made["AccessKeyId"],
            "secret_key": made["SecretAccessKey"],
            "token": made["SessionToken"],
            "expiry_time": made["Expiration"].isoformat(),
            "account_id": role.account,
        }

    def _check_account(self) -> None:
        """Refuse a role in a stranger's account: whose documents the client would go by, and whose
        hosts it would connect to. Raises `InvalidInput`.
        """
        role = self.role
        if role.accounts is None or role.account in role.accounts:
            return
        own = self._source.account_id
        if role.account == own:
            return
        raise InvalidInput(
            f"{role.origin} is a role of another account than yours",
            given=role.arn,
            allowed=f"a role of account {own}, or of one that you trust",
            advice=(
                "if you know whose account that is: export TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS="
                f"'[\"{role.account}\"]', or put it into your own Dask configuration, as "
                "terradask.workspace.trusted-accounts"
            ),
        )


def session_name(caller: str) -> str:
    """Return the name of a caller's sessions: its own name, so that tags, conditions and
    CloudTrail show the same owner.

    Parameters
    ----------
    caller
        Its ARN: the user, or the role's session.
    """
    least, most = _NAME_LENGTHS
    name = _UNNAMED.sub("-", re.split(r"[:/]", caller)[-1])[:most]
    return name if len(name) >= least else f"user-{name}"


def variables_for_programs(
    profile: str | None, role: Callable[[], Mapping[str, str]] | None
) -> dict[str, str | None]:
    """Return variables with which programs, such as Terraform, call AWS as this client does; None
    for those to remove. Empty if the settings name neither a profile nor a role.

    Parameters
    ----------
    role
        Returns the variables with a role's credentials.
    """
    if role is not None:
        return {**dict.fromkeys(_SOURCES), **role()}
    return {} if profile is None else {**dict.fromkeys(_SOURCES), "AWS_PROFILE": profile}


def changed(environ: Mapping[str, str], variables: Mapping[str, str | None]) -> dict[str, str]:
    """Return an environment with changed variables; None removes one."""
    return {k: v for k, v in {**environ, **variables}.items() if v is not None}


def _ends_soon(held: Mapping[str, str]) -> bool:
    left = datetime.datetime.fromisoformat(held["expiry_time"]) - datetime.datetime.now(
        datetime.UTC
    )
    return left < _PROGRAM_TIME


def _refused(error: AccessDenied, role: Role, caller: str) -> AccessDenied:
    made = AccessDenied("sts:AssumeRole", str(error.given))
    made.problem = f"AWS refuses sts:AssumeRole: {caller} can't assume {role.arn} ({role.origin})"
    made.advice = (
        "the role must exist, its trust policy must name this caller or its account, and a policy "
        f"of the caller must allow sts:AssumeRole on {role.arn}. If the trust policy asks for an "
        "external ID, set workspace.external_id; for MFA, use credentials made with a code: aws "
        "sts get-session-token --serial-number DEVICE --token-code CODE. A new role can take half "
        "a minute"
    )
    return made
