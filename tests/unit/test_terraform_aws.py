"""What boto3 raises, and what people read instead. No AWS is asked."""

from __future__ import annotations

import datetime
import email.utils
import json
import pickle
from pathlib import Path

import pytest
from botocore.exceptions import (
    ClientError,
    ConfigParseError,
    ConnectionClosedError,
    EndpointConnectionError,
    InfiniteLoopConfigError,
    InvalidConfigError,
    NoCredentialsError,
    ProfileNotFound,
    ReadTimeoutError,
)

from terradask._aws.endpoints import is_loopback_endpoint
from terradask._aws.session import Aws
from terradask._aws.translation import known_regions, translated, typed_error
from terradask._common.clock import utc_text
from terradask._network.baseline import parse_baseline
from terradask.errors import (
    AccessDenied,
    AwsError,
    BaselineError,
    EndpointUnreachable,
    InvalidCredentials,
    NoCredentials,
    RegionUnusable,
)
from terradask_stacks.validators.resources import check_region

VARIABLES = (
    "AWS_ENDPOINT_URL",
    "AWS_PROFILE",
    "AWS_SESSION_TOKEN",
    "AWS_CA_BUNDLE",
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
)


@pytest.fixture(autouse=True)
def _environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


def _refusal(code: str, message: str = "") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": message}}, "DescribeVpcs")


@pytest.mark.parametrize(
    ("error", "expected", "said"),
    [
        (_refusal("ExpiredToken"), NoCredentials, "have expired"),
        (_refusal("RequestExpired"), NoCredentials, "have expired"),
        (_refusal("ExpiredTokenException"), NoCredentials, "have expired"),
        (
            _refusal(
                "RequestTimeTooSkewed",
                "The difference between the request time and the current time is too large.",
            ),
            AwsError,
            "its clock is wrong",
        ),
        (
            _refusal(
                "SignatureDoesNotMatch",
                "Signature expired: 20261120T041852Z is now earlier than 20261120T050352Z",
            ),
            AwsError,
            "its clock is wrong",
        ),
        (
            _refusal(
                "InvalidSignatureException",
                "Signature not yet current: 20261120T061852Z is still later than",
            ),
            AwsError,
            "its clock is wrong",
        ),
        (
            _refusal("SignatureDoesNotMatch", "The request signature we calculated does not match"),
            InvalidCredentials,
            "accept",
        ),
        (_refusal("InvalidClientTokenId"), InvalidCredentials, "accept"),
        (_refusal("AuthFailure"), InvalidCredentials, "accept"),
        (
            _refusal(
                "UnauthorizedOperation",
                "User: x is not authorized to perform: ec2:DescribeVpcs because",
            ),
            AccessDenied,
            "ec2:DescribeVpcs",
        ),
        (NoCredentialsError(), NoCredentials, "no AWS credentials"),
        (ProfileNotFound(profile="prod"), NoCredentials, "correct workspace.profile"),
        (
            EndpointConnectionError(endpoint_url="https://ec2.us-east-1.amazonaws.com"),
            EndpointUnreachable,
            "answer",
        ),
        (ReadTimeoutError(endpoint_url="https://ec2"), EndpointUnreachable, "answer"),
        (ConnectionClosedError(endpoint_url="https://ec2"), EndpointUnreachable, "answer"),
        # Of the files in ~/.aws, and of programs that they name.
        (ConfigParseError(path="~/.aws/config"), NoCredentials, "can't be used"),
        (
            InvalidConfigError(error_msg="The source_profile b doesn't exist"),
            NoCredentials,
            "configuration",
        ),
        (
            InfiniteLoopConfigError(source_profile="a", visited_profiles=["a"]),
            NoCredentials,
            "configuration",
        ),
        (json.JSONDecodeError("Expecting value", "", 0), NoCredentials, "prints no valid JSON"),
    ],
)
def test_errors_are_translated(error: Exception, expected: type[Exception], said: str):
    with pytest.raises(expected, match=said) as caught, translated("us-east-1"):
        raise error
    assert type(caught.value) is expected
    assert caught.value.__cause__ is error
    assert caught.value.advice
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


@pytest.mark.parametrize(
    ("ahead_seconds", "expected"),
    [(3600, "clock is wrong"), (-1000, "clock is wrong"), (60, "credentials have expired")],
)
def test_what_ec2_calls_expired_is_the_clocks_fault_where_they_differ(
    ahead_seconds: float, expected: str
):
    there = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=ahead_seconds)
    refusal = _refusal("RequestExpired", "Request has expired.")
    refusal.response["ResponseMetadata"] = {
        "HTTPHeaders": {"date": email.utils.format_datetime(there, usegmt=True)}
    }
    with pytest.raises(AwsError, match=expected) as caught, translated("us-east-1"):
        raise refusal
    assert (f"{utc_text(there)} at AWS" in str(caught.value)) is (ahead_seconds != 60)


def test_denied_action_comes_from_the_message_or_the_call():
    named = typed_error(
        _refusal(
            "AccessDenied", "User: x is not authorized to perform: ec2:DescribeVpcs on resource"
        ),
        "us-east-1",
    )
    plain = typed_error(_refusal("AccessDenied", "Access Denied"), "us-east-1")
    assert isinstance(named, AccessDenied)
    assert isinstance(plain, AccessDenied)
    assert (named.action, plain.action) == ("ec2:DescribeVpcs", "DescribeVpcs")


def test_other_errors_pass():
    with pytest.raises(ClientError), translated("us-east-1"):
        raise _refusal("VpcLimitExceeded")


def test_missing_login_is_told_before_the_first_call():
    with pytest.raises(NoCredentials, match="AWS_PROFILE"):
        Aws("us-east-1").client("ec2")


def test_unknown_profile():
    with pytest.raises(NoCredentials, match="nobody"):
        Aws("us-east-1", profile="nobody").client("ec2")


def test_region_that_does_not_exist_names_the_nearest():
    found = typed_error(
        EndpointConnectionError(endpoint_url="https://ec2.us-esat-1.amazonaws.com"), "us-esat-1"
    )
    assert isinstance(found, RegionUnusable)
    assert "no such AWS region" in str(found)
    assert "us-east-1" in str(found)


def test_region_that_the_sdk_does_not_know_is_told_before_the_first_call(
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(RegionUnusable, match="eu-central-1") as caught:
        Aws("eu-centrall-1").client("ec2")
    assert (caught.value.given, caught.value.exit_code) == ("eu-centrall-1", 2)


#: Of the documents that terradask was made from; one stands there twice.
REGIONS = {
    *(
        "us-east-1",
        "us-east-2",
        "us-west-1",
        "us-west-2",
        "ca-central-1",
        "sa-east-1",
        "ap-east-1",
        "ap-northeast-1",
        "ap-northeast-2",
    ),
    *(
        "ap-south-1",
        "ap-southeast-1",
        "ap-southeast-2",
        "eu-central-1",
        "eu-north-1",
        "eu-west-1",
        "eu-west-2",
        "eu-west-3",
    ),
}


def test_the_regions_of_the_documents_and_those_since_are_known():
    assert len(REGIONS) == 17
    assert REGIONS | {"eu-south-2", "us-gov-west-1", "cn-north-1"} <= set(known_regions())
    assert all(check_region(region) == region for region in known_regions())


def test_clients_are_made_once(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    aws = Aws("eu-central-1")
    assert aws.client("ec2") is aws.client("ec2")
    assert aws.client("ec2").meta.region_name == "eu-central-1"


@pytest.mark.parametrize(
    ("endpoint", "expected"),
    [
        (None, False),
        ("", False),
        ("http://127.0.0.1:5000", True),
        ("http://127.64.3.2:5000", True),
        ("http://localhost:5000", True),
        ("http://[::1]:5000", True),
        ("https://vpce-1.ec2.us-east-1.vpce.amazonaws.com", False),
        ("http://10.0.0.1", False),
    ],
)
def test_loopback_endpoints(endpoint: str | None, expected: bool):
    assert (
        is_loopback_endpoint({} if endpoint is None else {"AWS_ENDPOINT_URL": endpoint}) is expected
    )


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '{"format": 2, "terradask_version": "9.1.0"}',
            "pip install --upgrade terradask (the network was deployed with 9.1.0)",
        ),
        ('{"format": 0}', "terradask apply network"),
        ("{}", "terradask apply network"),
        ("[]", "terradask apply network"),
        ("no json", "terradask apply network"),
        ('{"format": 1}', "terradask apply network"),
    ],
)
def test_baseline_of_another_format_names_the_command(body: str, expected: str):
    with pytest.raises(BaselineError) as caught:
        parse_baseline(body)
    assert expected in str(caught.value)
    assert caught.value.exit_code == 6
