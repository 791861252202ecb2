"""A host reads what a run's ``secrets`` name; each way in which AWS may not give it is told."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError

from terradask_host.agent.aws import Aws
from terradask_host.agent.referenced_secrets import ReferencedSecrets
from terradask_host.errors import SecretUnreadable
from terradask_host.timing import Timing
from terradask_simulator.aws.fidelity import secrets_manager
from terradask_stacks.settings import NetworkSettings

from ..moto_account import moto_account

REGION, ACCOUNT = "us-east-1", "123456789012"
ROLE = f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"
VALUE = "a-planted-value-4711"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:db-AbCdEf"
PARAMETER = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/team/token"
KEY = f"arn:aws:kms:{REGION}:{ACCOUNT}:key/11111111-2222-3333-4444-555555555555"


def reader(
    references: dict[str, str], aws: Any = None, *, log: list[str] | None = None, **timing: float
) -> ReferencedSecrets:
    quick = Timing(**{"secret_deadline_seconds": 0.0, "secret_fresh_seconds": 0.0, **timing})
    return ReferencedSecrets(
        references,
        aws or Aws(REGION),
        role=ROLE,
        timing=quick,
        log=logging.getLogger("test").info if log is None else log.append,
    )


def failure(references: dict[str, str], aws: Any = None) -> SecretUnreadable:
    with pytest.raises(SecretUnreadable) as caught:
        reader(references, aws).read()
    assert VALUE not in str(caught.value)
    return caught.value


@pytest.fixture(scope="module")
def stored() -> Iterator[dict[str, str]]:
    """ARNs of what an account has, by what it is."""
    secrets_manager.install()
    with moto_account():
        found = {}
        for region in (REGION, "eu-west-1"):
            secrets = boto3.client("secretsmanager", region_name=region)
            texts: dict[str, dict[str, Any]] = {
                "text": {"SecretString": VALUE},
                "json": {"SecretString": json.dumps({"password": VALUE, "port": 5432})},
                "binary": {"SecretBinary": b"\0\1"},
                "nul": {"SecretString": f"a\0{VALUE}"},
                "deleted": {"SecretString": VALUE},
            }
            for name, content in texts.items():
                key = name if region == REGION else f"{name} elsewhere"
                found[key] = secrets.create_secret(Name=f"team/{name}", **content)["ARN"]
            secrets.delete_secret(SecretId="team/deleted")
            secrets.close()
        ssm = boto3.client("ssm", region_name=REGION)
        for kind in ("String", "SecureString"):
            ssm.put_parameter(Name=f"/team/{kind}", Value=VALUE, Type=kind)
            found[kind] = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/team/{kind}"
        ssm.put_parameter(Name="plain", Value=VALUE, Type="String")
        found["plain"] = f"arn:aws:ssm:{REGION}:{ACCOUNT}:parameter/plain"
        ssm.close()
        yield found


def test_both_stores_whole_and_by_key_and_in_another_region(stored: dict[str, str]) -> None:
    assert reader(
        {
            "TEXT": stored["text"],
            "PASSWORD": f"{stored['json']}:password",
            "PORT": f"{stored['json']}:port",
            "ELSEWHERE": stored["text elsewhere"],
            "A": stored["String"],
            "B": stored["SecureString"],
            "C": stored["plain"],
        }
    ).read() == {
        **dict.fromkeys(("TEXT", "PASSWORD", "ELSEWHERE", "A", "B", "C"), VALUE),
        "PORT": "5432",
    }


@pytest.mark.parametrize(
    ("what", "more", "told"),
    [
        ("binary", "", "it is binary"),
        ("nul", "", "an environment variable can't hold it"),
        ("json", ":user", "it has no such key: 'user'"),
        ("text", ":user", "it is not a JSON object: 'user'"),
        ("deleted", "", "it is marked for deletion"),
    ],
)
def test_a_secret_without_a_value_for_a_variable_says_why(
    stored: dict[str, str], what: str, more: str, told: str
) -> None:
    error = failure({"TOKEN": stored[what] + more})
    assert f"The secret for TOKEN can't be read: {told}" in str(error)
    assert error.given == stored[what]
    assert error.advice
    restore = f"aws secretsmanager restore-secret --secret-id {stored[what]}."
    assert (error.advice == restore) is (what == "deleted")


@pytest.mark.parametrize("arn", [SECRET, PARAMETER])
def test_what_does_not_exist_is_named(stored: dict[str, str], arn: str) -> None:
    error = failure({"TOKEN": arn})
    assert "it doesn't exist, or has no value" in str(error)
    assert error.given == arn


def test_another_partition_is_out_of_reach() -> None:
    error = failure({"TOKEN": SECRET.replace("arn:aws:", "arn:aws-cn:")})
    assert "it is in the partition aws-cn, which nothing here can reach" in str(error)
    assert "allowed: a secret of the partition aws" in str(error)


class Scripted:
    """AWS whose calls fail as a script says, and then give the value."""

    region = REGION

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.calls = list(errors), 0

    def client(self, service: str, region: str) -> Any:
        return self

    def get_secret_value(self, **_: Any) -> dict[str, str]:
        self.calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return {"SecretString": VALUE}

    def get_parameter(self, **_: Any) -> dict[str, dict[str, str]]:
        return {"Parameter": {"Value": self.get_secret_value()["SecretString"]}}


def refusal(code: str, message: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "GetSecretValue")


NO_RIGHT = (
    f"User: arn:aws:sts::{ACCOUNT}:assumed-role/r/i-1 is not authorized to perform: "
    "secretsmanager:GetSecretValue on resource: x because no identity-based policy allows it"
)


@pytest.mark.parametrize(
    ("arn", "told", "action", "resource"),
    [
        (SECRET, NO_RIGHT, "secretsmanager:GetSecretValue", SECRET),
        (f"{SECRET}:password", NO_RIGHT, "secretsmanager:GetSecretValue", SECRET),
        (PARAMETER, NO_RIGHT, "ssm:GetParameter", PARAMETER),
        (
            SECRET,
            "Access to KMS is not allowed",
            "kms:Decrypt",
            f"arn:aws:kms:{REGION}:{ACCOUNT}:key/KEY",
        ),
        (
            PARAMETER,
            f"User: u is not authorized to perform: kms:Decrypt on resource: {KEY} because …",
            "kms:Decrypt",
            KEY,
        ),
        (
            PARAMETER,
            "The ciphertext refers to a customer master key that does not exist, does not exist "
            "in this region, or you are not allowed to access.",
            "kms:Decrypt",
            f"arn:aws:kms:{REGION}:{ACCOUNT}:key/KEY",
        ),
    ],
)
def test_a_missing_right_names_the_lines_to_add(
    arn: str, told: str, action: str, resource: str
) -> None:
    import tomllib

    error = failure({"TOKEN": arn}, Scripted(refusal("AccessDeniedException", told)))
    assert "this host's role may not read it" in str(error)
    _, _, lines = str(error).partition("apply network\n")
    (rights,) = tomllib.loads(lines)["network"]["task_rights"]
    assert rights == {"reason": "secret TOKEN", "actions": [action], "resources": [resource]}
    # Settings take them as they are.
    (taken,) = NetworkSettings(task_rights=[rights]).task_rights
    assert (taken.actions, taken.resources) == ([action], [resource])


def test_lines_are_no_help_against_a_deny() -> None:
    told = f"{NO_RIGHT} with an explicit deny in a resource-based policy"
    error = failure({"TOKEN": SECRET}, Scripted(refusal("AccessDeniedException", told)))
    assert "task_rights" not in str(error)
    assert f"A policy denies it: ask who wrote it to except {ROLE}." in str(error)


def test_another_accounts_secret_needs_that_accounts_word_too() -> None:
    arn = SECRET.replace(ACCOUNT, "210987654321")
    error = failure({"TOKEN": arn}, Scripted(refusal("AccessDeniedException", NO_RIGHT)))
    assert (
        f"of account 210987654321: its own policy, and that of its key, must also allow {ROLE}"
        in (str(error))
    )


def test_at_first_a_right_that_comes_and_throttling_are_waited_for() -> None:
    throttled = refusal("ThrottlingException", "Rate exceeded")
    aws = Scripted(refusal("AccessDeniedException", NO_RIGHT), throttled, throttled)
    pauses: list[float] = []
    secrets = reader({"TOKEN": SECRET}, aws, secret_deadline_seconds=60.0)
    assert secrets.read(pauses.append) == {"TOKEN": VALUE}
    assert len(pauses) == 3 < aws.calls


def test_what_will_not_come_is_not_waited_for() -> None:
    aws = Scripted(*[refusal("ResourceNotFoundException", "can't find it")] * 2)
    with pytest.raises(SecretUnreadable):
        reader({"TOKEN": SECRET}, aws, secret_deadline_seconds=60.0).read()
    assert aws.calls == 1


def test_an_endpoint_that_does_not_answer_says_what_hosts_must_reach() -> None:
    elsewhere = PARAMETER.replace(REGION, "eu-west-1")
    error = failure({"TOKEN": elsewhere}, Scripted(ConnectTimeoutError(endpoint_url="https://x")))
    assert "Hosts must reach ssm of eu-west-1: through a NAT gateway" in str(error)


def test_processes_that_start_together_share_a_read_and_later_ones_get_a_rotated_value() -> None:
    aws = Scripted()
    secrets = reader({"A": SECRET, "B": f"{SECRET}"}, aws, secret_fresh_seconds=60.0)
    assert secrets.read() == secrets.read() == {"A": VALUE, "B": VALUE}
    assert aws.calls == 1
    secrets = reader({"A": SECRET}, aws)
    secrets.read()
    secrets.read()
    assert aws.calls == 3


def test_while_aws_does_not_answer_new_processes_get_what_was_read_before() -> None:
    aws, log = Scripted(), list[str]()
    secrets = reader({"A": SECRET}, aws, log=log)
    secrets.read()
    aws.errors = [refusal("InternalServiceError", "x")] * 2
    assert [secrets.read(), secrets.read(), secrets.read()] == [{"A": VALUE}] * 3
    (told,) = log
    assert "new processes get the values that were read before" in told


@pytest.mark.parametrize(
    "error",
    [
        refusal("ThrottlingException", "Rate exceeded"),
        refusal("ExpiredTokenException", "The security token included in the request is expired"),
        ConnectTimeoutError(endpoint_url="https://x"),
    ],
)
def test_only_a_refusal_takes_them_from_new_processes(error: Exception) -> None:
    aws = Scripted()
    secrets = reader({"A": SECRET}, aws)
    secrets.read()
    aws.errors = [error]
    assert secrets.read() == {"A": VALUE}
    assert aws.errors == []


def test_a_right_that_was_taken_away_leaves_nothing() -> None:
    aws = Scripted()
    secrets = reader({"A": SECRET}, aws)
    secrets.read()
    aws.errors = [refusal("AccessDeniedException", NO_RIGHT)]
    with pytest.raises(SecretUnreadable, match="may not read it"):
        secrets.read()
