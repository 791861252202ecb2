"""The role and the profile that settings name: whose credentials calls and programs get."""

from __future__ import annotations

import datetime
import json
from pathlib import Path
from typing import Any, Self

import pytest

from terradask._aws.roles import Role, RoleSession, changed, session_name
from terradask._aws.session import Aws
from terradask._terraform.terraform import Terraform
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask.errors import AccessDenied, InvalidInput, NoCredentials, SettingsError
from terradask_stacks.loading import load_settings

ACCOUNT, OTHER, STRANGERS = "123456789012", "210987654321", "333333333333"
CALLER = f"arn:aws:iam::{ACCOUNT}:user/team/ada"
ARN = f"arn:aws:iam::{OTHER}:role/platform/dask"


class Caller:
    """AWS with a user's credentials, and STS with sessions that last so long."""

    account_id = ACCOUNT

    def __init__(self, minutes: float = 60, error: Exception | None = None) -> None:
        self.minutes, self.error = minutes, error
        self.asked: list[dict[str, str]] = []
        self.caller_arn = CALLER

    def client(self, name: str) -> Any:
        assert name == "sts"
        return self

    def anew(self) -> Self:
        return self

    def assume_role(self, **asked: str) -> dict[str, Any]:
        self.asked.append(asked)
        if self.error is not None:
            raise self.error
        number = len(self.asked)
        until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=self.minutes)
        return {
            "Credentials": {
                "AccessKeyId": f"ASIA{number}",
                "SecretAccessKey": f"secret{number}",
                "SessionToken": f"token{number}",
                "Expiration": until,
            }
        }


@pytest.mark.parametrize(
    ("caller", "name"),
    [
        (CALLER, "ada"),
        (f"arn:aws:sts::{ACCOUNT}:assumed-role/Admin/ada@example.com", "ada@example.com"),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/ada", "ada"),
        (f"arn:aws:iam::{ACCOUNT}:root", "root"),
        (f"arn:aws:iam::{ACCOUNT}:user/a", "user-a"),
        (f"arn:aws:iam::{ACCOUNT}:user/{'x' * 80}", "x" * 64),
        (f"arn:aws:sts::{ACCOUNT}:federated-user/Zoë B", "Zo--B"),
    ],
)
def test_a_session_has_its_callers_name(caller: str, name: str) -> None:
    assert session_name(caller) == name


def test_calls_get_the_roles_credentials_which_renew_themselves() -> None:
    caller = Caller()
    session = RoleSession(caller, Role(ARN, "shared"))
    first = session.credentials.get_frozen_credentials()
    assert (first.access_key, first.token, first.account_id) == ("ASIA1", "token1", OTHER)
    assert session.credentials.get_frozen_credentials().access_key == "ASIA1"
    caller = Caller(minutes=5)
    session = RoleSession(caller, Role(ARN, "shared"))
    session.credentials.get_frozen_credentials()
    assert session.credentials.get_frozen_credentials().access_key == "ASIA3"
    asked = {"RoleArn": ARN, "RoleSessionName": "ada", "ExternalId": "shared"}
    assert caller.asked == [asked] * 3


def test_a_program_gets_credentials_for_most_of_an_hour() -> None:
    caller = Caller(minutes=50)
    session = RoleSession(caller, Role(ARN))
    for _ in range(2):
        assert session.variables()["AWS_ACCESS_KEY_ID"] == "ASIA1"
    caller.minutes = 40
    session = RoleSession(caller, Role(ARN))
    keys = [session.variables()["AWS_ACCESS_KEY_ID"] for _ in range(2)]
    assert keys == ["ASIA2", "ASIA3"]


def test_a_refusal_names_role_and_caller_and_what_to_do() -> None:
    denied = AccessDenied("sts:AssumeRole", "User: ada is not authorized")
    session = RoleSession(Caller(error=denied), Role(ARN, origin="role_arn in here.toml"))
    with pytest.raises(AccessDenied) as refused:
        session.variables()
    assert refused.value.action == "sts:AssumeRole"
    assert refused.value.__cause__ is denied
    for part in (CALLER, ARN, "role_arn in here.toml", "trust policy", "external_id", "MFA"):
        assert part in str(refused.value)


def test_expired_credentials_say_what_they_are_for(monkeypatch: pytest.MonkeyPatch) -> None:
    caller = Caller()

    def expired(name: str) -> Any:
        raise NoCredentials("the AWS login has expired", advice="aws sso login")

    monkeypatch.setattr(caller, "client", expired)
    with pytest.raises(NoCredentials, match=rf"aws sso login; .*assume {ARN}"):
        RoleSession(caller, Role(ARN)).variables()


@pytest.mark.parametrize(
    ("account", "trusted"), [(OTHER, [OTHER]), (ACCOUNT, []), (STRANGERS, None), (OTHER, None)]
)
def test_roles_of_ones_own_and_of_trusted_accounts_are_assumed(
    account: str, trusted: list[str] | None
) -> None:
    accounts = None if trusted is None else frozenset(trusted)
    role = Role(f"arn:aws:iam::{account}:role/dask", accounts=accounts)
    assert RoleSession(Caller(), role).variables()


def test_a_files_role_of_a_strangers_account_is_not_assumed() -> None:
    caller = Caller()
    role = Role(f"arn:aws:iam::{STRANGERS}:role/dask", origin="x", accounts=frozenset({OTHER}))
    with pytest.raises(InvalidInput, match="TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS") as refused:
        RoleSession(caller, role).variables()
    assert STRANGERS in str(refused.value)
    assert caller.asked == []


def test_a_workspace_has_its_settings_profile_and_role(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "terradask.toml").write_text(
        f'[workspace]\nrole_arn = "{ARN}"\nexternal_id = "shared"\nprofile = "work"\n'
    )
    monkeypatch.setenv("TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS", f'["{OTHER}"]')
    aws = WorkspaceContext.load(SettingsSource(tmp_path, {})).aws
    assert (aws.profile, _role(aws).arn, _role(aws).external_id) == ("work", ARN, "shared")
    assert _role(aws).accounts == {OTHER}
    assert str(tmp_path / "terradask.toml") in _role(aws).origin
    # The same for all that is made of it, in other regions as well.
    for copy in (aws.anew(), aws.in_region("eu-west-1")):
        assert (copy.profile, _role(copy)) == ("work", _role(aws))
    # A variable is the user's: it needs no trust.
    monkeypatch.setenv("TERRADASK_WORKSPACE__ROLE_ARN", ARN)
    assert _role(WorkspaceContext.load(SettingsSource(tmp_path, {})).aws).accounts is None


def _role(aws: Aws) -> Role:
    assert aws._role is not None
    return aws._role.role


def test_programs_get_the_profile_or_the_roles_credentials_and_no_others(tmp_path: Path) -> None:
    program = tmp_path / "terraform"
    program.write_text("#!/bin/sh\necho Terraform v1.11.4\n")
    program.chmod(0o755)
    environ = {
        "AWS_ACCESS_KEY_ID": "AKIA",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_SESSION_TOKEN": "y",
        "AWS_PROFILE": "other",
        "AWS_REGION": "eu-west-1",
        "HOME": "/root",
    }
    assert changed(environ, Aws("us-east-1").variables()) == environ
    kept = {"AWS_REGION": "eu-west-1", "HOME": "/root"}
    by_profile = Aws("us-east-1", profile="work").variables()
    assert changed(environ, by_profile) == {**kept, "AWS_PROFILE": "work"}

    aws = Aws("us-east-1", profile="work", role=Role(ARN))
    aws._role = RoleSession(Caller(), Role(ARN))
    terraform = Terraform(
        tmp_path, environ={**environ, "PATH": str(tmp_path)}, credentials=aws.variables
    )
    found = terraform.environment()
    assert {name: text for name, text in found.items() if name.startswith("AWS_")} == {
        "AWS_REGION": "eu-west-1",
        "AWS_ACCESS_KEY_ID": "ASIA1",
        "AWS_SECRET_ACCESS_KEY": "secret1",
        "AWS_SESSION_TOKEN": "token1",
    }


@pytest.mark.parametrize(
    ("lines", "problem"),
    [
        (f'role_arn = "arn:aws:iam::{OTHER}:user/ada"', "the ARN of an IAM role"),
        ('role_arn = "dask"', "the ARN of an IAM role"),
        (f'role_arn = "arn:aws-cn:iam::{OTHER}:role/dask"', "partition aws-cn"),
        ('external_id = "shared"', "without role_arn"),
        (f'role_arn = "{ARN}"\nexternal_id = "a b"', "external ID"),
        (f'trusted_accounts = ["{OTHER}"]', "TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS"),
        ('profile = ""', "workspace.profile"),
    ],
)
def test_what_can_not_be_used_is_refused(tmp_path: Path, lines: str, problem: str) -> None:
    (tmp_path / "terradask.toml").write_text(f"[workspace]\n{lines}\n")
    with pytest.raises(SettingsError, match=problem):
        load_settings(tmp_path, environ={})


def test_trusted_accounts_are_the_users_own_settings(tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text("")
    accounts = [OTHER]
    variable = {"TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS": json.dumps(accounts)}
    of_user = {"workspace": {"trusted-accounts": accounts}}
    for loaded in (
        load_settings(tmp_path, environ=variable),
        load_settings(tmp_path, environ={}, dask_config=of_user),
    ):
        assert loaded.settings.workspace.trusted_accounts == accounts
