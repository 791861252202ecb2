"""The caller's credentials expire, or the clock of this machine is wrong, in the middle of
something.
"""

from __future__ import annotations

import datetime
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask.errors import AwsError, NoCredentials
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator]

#: A call of each protocol that AWS speaks.
CALLS = {
    "ec2": lambda aws: aws.client("ec2").describe_vpcs(),
    "query": lambda aws: aws.client("autoscaling").describe_auto_scaling_groups(),
    "json": lambda aws: aws.client("secretsmanager").list_secrets(),
    "rest": lambda aws: aws.client("s3").list_buckets(),
}
VARIABLES = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")


@pytest.fixture(scope="module")
def own_aws() -> Iterator[Simulator]:
    """An embedded AWS without hosts, whom a wrong clock would bother."""
    with Simulator.start(boot_hosts=False) as simulator, simulator.applied():
        yield simulator


def temporary(simulator: Simulator) -> dict[str, str]:
    """Return new temporary credentials."""
    environ = simulator.environ_of(
        "temporary",
        {
            "Version": "2012-10-17",
            "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
        },
    )
    return {name: environ[name] for name in VARIABLES}


@pytest.mark.parametrize("protocol", CALLS)
def test_credentials_that_have_expired_are_told_and_read_anew(
    own_aws: Simulator, protocol: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def use(credentials: Mapping[str, str]) -> None:
        for name, value in credentials.items():
            monkeypatch.setenv(name, value)

    old, aws = temporary(own_aws), Aws("us-east-1")
    use(old)
    CALLS[protocol](aws)
    own_aws.expire_credentials(old["AWS_ACCESS_KEY_ID"])
    for _ in range(2):
        with pytest.raises(NoCredentials, match="aws sso login") as caught:
            CALLS[protocol](aws)
        assert old["AWS_SECRET_ACCESS_KEY"] not in str(caught.value)
        assert old["AWS_SESSION_TOKEN"] not in str(caught.value)
    use(temporary(own_aws))
    CALLS[protocol](aws)


def test_credentials_with_an_end_are_renewed_before_it(
    own_aws: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    printed = tmp_path / "credentials.json"
    code = f"print(open({str(printed)!r}).read())"
    (tmp_path / "print.py").write_text(code)
    (tmp_path / "config").write_text(
        f"[profile temporary]\ncredential_process = {sys.executable} {tmp_path}/print.py\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    def give(credentials: Mapping[str, str], minutes: float) -> None:
        end = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
        key, secret, token = (credentials[name] for name in VARIABLES)
        document = {
            "Version": 1,
            "AccessKeyId": key,
            "SecretAccessKey": secret,
            "SessionToken": token,
            "Expiration": end.isoformat(),
        }
        printed.write_text(json.dumps(document))

    old, new = temporary(own_aws), temporary(own_aws)
    give(old, minutes=5)
    aws = Aws("us-east-1", profile="temporary")
    used: list[Any] = []
    client = aws.client("s3")
    client.meta.events.register(
        "before-send", lambda request, **_: used.append(request.headers["Authorization"])
    )
    client.list_buckets()
    give(new, minutes=60)
    with own_aws.expire_credentials(old["AWS_ACCESS_KEY_ID"]):
        client.list_buckets()
    assert aws.client("s3") is client
    assert [key["AWS_ACCESS_KEY_ID"].encode() in used[n] for n, key in enumerate((old, new))] == [
        True,
        True,
    ]


@pytest.mark.parametrize("hours", [1, -1])
@pytest.mark.parametrize("protocol", CALLS)
def test_a_wrong_clock_is_named(own_aws: Simulator, protocol: str, hours: int) -> None:
    aws = Aws("us-east-1")
    with own_aws.skew_clock(hours * 3600):
        with pytest.raises(AwsError, match="NTP") as caught:
            CALLS[protocol](aws)
        assert "here, " in str(caught.value.given)
        assert str(caught.value.given).endswith("at AWS")
    with own_aws.skew_clock(hours * 600):
        CALLS[protocol](aws)
