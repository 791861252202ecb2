"""Clients raise typed errors themselves: from calls, paginators, waiters and threads. No AWS is
asked.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from terradask._aws.session import Aws
from terradask._aws.translation import is_transient
from terradask._clusters.deployment import Deployment
from terradask.errors import (
    AccessDenied,
    EndpointUnreachable,
    InvalidCredentials,
    NoCredentials,
    TerradaskError,
)

DENIED = "User: x is not authorized to perform: ec2:DescribeInstances on resource"


@pytest.fixture(autouse=True)
def _environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")


@pytest.fixture
def aws() -> Aws:
    return Aws("us-east-1")


def answers(client: Any, *answers: tuple[str, str] | dict[str, Any]) -> Any:
    """Have a client get these answers in turn, the last of them ever after: an error's code and
    message, or what AWS says.
    """
    left = list(answers)

    def answer(**_: Any) -> tuple[Any, dict[str, Any]]:
        said = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(said, dict):
            return SimpleNamespace(status_code=200), said
        return SimpleNamespace(status_code=403), {
            "Error": {"Code": said[0], "Message": said[1]},
            "ResponseMetadata": {"HTTPStatusCode": 403},
        }

    client.meta.events.register("before-call", answer)
    return client


def call(client: Any) -> object:
    return client.describe_instances()


def paginate(client: Any) -> object:
    return list(client.get_paginator("describe_instances").paginate())


def wait(client: Any) -> object:
    return client.get_waiter("instance_running").wait(WaiterConfig={"Delay": 0, "MaxAttempts": 2})


def in_a_thread(client: Any) -> object:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(client.describe_instances).result()


WAYS = [call, paginate, wait, in_a_thread]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        ("UnauthorizedOperation", AccessDenied),
        ("RequestExpired", NoCredentials),
        ("AuthFailure", InvalidCredentials),
    ],
)
def test_refusals_have_types(
    aws: Aws, way: Callable[[Any], object], code: str, expected: type[TerradaskError]
) -> None:
    with pytest.raises(expected) as caught:
        way(answers(aws.client("ec2"), (code, DENIED)))
    assert isinstance(caught.value.__cause__, ClientError)
    assert caught.value.__cause__.response["Error"]["Code"] == code


@pytest.mark.parametrize("way", WAYS)
def test_nothing_that_answers_raises_types(
    aws: Aws, way: Callable[[Any], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(EndpointUnreachable, match="still running") as caught:
            way(Aws("us-east-1", attempts=1).client("ec2"))
    assert isinstance(caught.value.__cause__, EndpointConnectionError)


@pytest.mark.parametrize("way", [call, paginate, in_a_thread])
def test_other_errors_stay_boto3s(aws: Aws, way: Callable[[Any], object]) -> None:
    client = answers(aws.client("ec2"), ("InvalidInstanceID.NotFound", "no"))
    with pytest.raises(client.exceptions.ClientError, match=r"InvalidInstanceID\.NotFound"):
        way(client)


def test_a_refusal_on_a_later_page_has_a_type(aws: Aws) -> None:
    pages: Iterator[Any] = iter(
        answers(
            aws.client("ec2"),
            {"Reservations": [], "NextToken": "more"},
            ("UnauthorizedOperation", DENIED),
        )
        .get_paginator("describe_instances")
        .paginate()
    )
    next(pages)
    with pytest.raises(AccessDenied) as caught:
        next(pages)
    assert caught.value.action == "ec2:DescribeInstances"


@pytest.mark.parametrize(
    ("service", "method", "action"),
    [
        ("ec2", "describe_instance_types", "ec2:DescribeInstanceTypes"),
        ("service-quotas", "list_services", "servicequotas:ListServices"),
        # Listing buckets is another action.
        ("s3", "list_buckets", "ListBuckets"),
    ],
)
def test_a_refusal_that_names_no_action_is_that_of_the_call(
    aws: Aws, service: str, method: str, action: str
) -> None:
    client = answers(aws.client(service), ("AccessDenied", "You are not authorized to do this."))
    with pytest.raises(AccessDenied) as caught:
        getattr(client, method)()
    assert caught.value.action == action


def test_expired_credentials_pass_and_the_next_client_has_new_ones(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = answers(aws.client("sts"), ("ExpiredToken", "no"))
    with pytest.raises(NoCredentials, match="have expired") as caught:
        client.get_caller_identity()
    assert is_transient(caught.value)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "renewed")
    assert aws.client("sts") is not client
    assert aws.credentials().access_key == "renewed"
    renewed = answers(aws.client("sts"), ("AccessDenied", "no"))
    with pytest.raises(AccessDenied) as denied:
        renewed.get_caller_identity()
    assert not is_transient(denied.value)


@pytest.mark.parametrize(
    "method", [Deployment.start, Deployment.stop, Deployment.status, Deployment.events]
)
def test_starting_and_stopping_without_the_right_names_the_action(
    aws: Aws, method: Callable[..., object]
) -> None:
    for service in ("s3", "autoscaling"):
        answers(
            aws.client(service),
            ("AccessDenied", "User: x is not authorized to perform: s3:GetObject on resource"),
        )
    with pytest.raises(AccessDenied) as caught:
        method(Deployment(aws, "terradask-default-123456789012-us-east-1", "etl"))
    assert caught.value.action == "s3:GetObject"
