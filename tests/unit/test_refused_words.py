"""What AWS refuses in words of its own: a key that can't be used, a secret that was deleted, and
whatever has no type. Each reaches a user with what to do, and none as a bug of terradask.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import click
import pytest
from botocore.exceptions import ClientError

from terradask._aws.session import Aws
from terradask._aws.translation import is_transient, typed_error
from terradask._clusters import attach
from terradask._observe.documents import Descriptor
from terradask.cli._invocation import Invocation
from terradask.cli._run import _failed
from terradask.errors import AwsError, ClusterError
from terradask_host.documents import Run

from ..moto_account import moto_account

SECRET = "terradask/default/etl"
RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "0" * 32, "3.11", {}, 2)
DESCRIPTOR = Descriptor("default", "etl", "us-east-1", "b", "us-east-1a", {}, SECRET, {}, {})


def refusal(code: str) -> ClientError:
    answer: Any = {"Error": {"Code": code, "Message": "arn:aws:kms:…:key/1 is disabled."}}
    return ClientError(answer, "GetObject")


@pytest.mark.parametrize(
    "code",
    [
        "KMS.DisabledException",
        "KMS.KMSInvalidStateException",
        "KMSInvalidStateException",
        "DecryptionFailure",
        "EncryptionFailure",
    ],
)
def test_a_key_that_can_not_be_used_is_named_with_what_helps(code: str) -> None:
    typed = typed_error(refusal(code), "us-east-1")
    assert type(typed) is AwsError
    assert code in str(typed)
    assert "aws kms enable-key" in str(typed)
    typed.__cause__ = refusal(code)
    assert not is_transient(typed)


@pytest.mark.parametrize("code", ["NoSuchKey", "InvalidRequestException", "KmsLike"])
def test_other_codes_are_no_matter_of_the_key(code: str) -> None:
    assert typed_error(refusal(code), "us-east-1") is None


@pytest.fixture
def record() -> Iterator[Any]:
    with moto_account():
        aws = Aws("us-east-1")
        aws.client("secretsmanager").create_secret(Name=SECRET, SecretString="{}")
        objects = SimpleNamespace(read_bytes=lambda _: b"{}", read=lambda _: None)
        yield SimpleNamespace(name="etl", aws=aws, descriptor=DESCRIPTOR, objects=objects)


@pytest.mark.parametrize("days", [0, 7], ids=["gone", "to be deleted"])
def test_attaching_to_a_run_whose_secret_was_deleted_says_that(
    record: Any, monkeypatch: pytest.MonkeyPatch, days: int
) -> None:
    how: Any = {"RecoveryWindowInDays": days} if days else {"ForceDeleteWithoutRecovery": True}
    record.aws.client("secretsmanager").delete_secret(SecretId=SECRET, **how)
    monkeypatch.setattr(attach, "_wait_for_scheduler", lambda *_: None)
    with pytest.raises(ClusterError, match="its secret was deleted") as caught:
        attach.attach(record, RUN, timeout_seconds=1, on_wait=None, cancelled=lambda: False)
    assert "terradask apply etl" in str(caught.value)


def test_what_aws_refuses_without_a_type_is_no_bug_of_terradask(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with click.Context(click.Command("x")):
        assert _failed(Invocation(as_json=False), refusal("ValidationError")) == 1
        assert _failed(Invocation(as_json=False), KeyError("x")) == 1
    aws, own = capsys.readouterr().err.split("KeyError")
    assert "an error of AWS: correct its cause" in aws
    assert "this is a bug" not in aws
    assert "this is a bug in terradask" in own
