"""Bad input that the first call to AWS can know of: a region, a login, a proxy. No AWS is asked."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from botocore.exceptions import ProxyConnectionError, SSLError

from terradask._aws.session import Aws
from terradask._aws.translation import typed_error
from terradask.errors import (
    EndpointUnreachable,
    InvalidCredentials,
    NoCredentials,
    RegionUnusable,
)


@pytest.fixture(autouse=True)
def _environ(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CA_BUNDLE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "none"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("https_proxy", raising=False)
    monkeypatch.delenv("HTTPS_PROXY", raising=False)


class ForeignTokenService:
    """STS as it answers an account in regions that it has, or hasn't, enabled."""

    meta = SimpleNamespace(endpoint_url="https://sts.amazonaws.com")

    def __init__(self, error: Exception | None) -> None:
        self.error = error

    def get_caller_identity(self) -> dict[str, str]:
        if self.error is not None:
            raise self.error
        return {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/ada"}


def _refusing(monkeypatch: pytest.MonkeyPatch, regions: dict[str, Exception | None]) -> None:
    monkeypatch.setattr(Aws, "client", lambda aws, _name: ForeignTokenService(regions[aws.region]))


UNKNOWN_TOKEN = InvalidCredentials("AWS doesn't accept the credentials")


def test_a_region_that_the_account_has_not_enabled_is_told_from_bad_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    _refusing(monkeypatch, {"ap-southeast-6": UNKNOWN_TOKEN, "us-east-1": None})
    with pytest.raises(RegionUnusable, match="not enabled this region") as caught:
        _ = Aws("ap-southeast-6").account_id
    assert "enable-region --region-name ap-southeast-6" in str(caught.value)
    assert caught.value.__cause__ is UNKNOWN_TOKEN


@pytest.mark.parametrize("region", ["ap-southeast-6", "us-east-1", "cn-north-1"])
def test_keys_that_are_accepted_nowhere_are_bad_keys(
    monkeypatch: pytest.MonkeyPatch, region: str
) -> None:
    _refusing(monkeypatch, {region: UNKNOWN_TOKEN, "us-east-1": UNKNOWN_TOKEN})
    with pytest.raises(InvalidCredentials):
        _ = Aws(region).account_id


def test_an_expired_login_is_no_question_of_the_region(monkeypatch: pytest.MonkeyPatch) -> None:
    _refusing(monkeypatch, {"ap-southeast-6": NoCredentials("expired"), "us-east-1": None})
    with pytest.raises(NoCredentials, match="expired"):
        _ = Aws("ap-southeast-6").account_id


PROFILES = """
[profile plain]
aws_access_key_id = AKIAIOSFODNN7EXAMPLE
aws_secret_access_key = testing
[profile role]
role_arn = arn:aws:iam::123456789012:role/data
source_profile = plain
[profile guarded]
role_arn = arn:aws:iam::123456789012:role/data
source_profile = plain
mfa_serial = arn:aws:iam::123456789012:mfa/ada
"""


def test_a_profile_that_asks_for_a_code_is_refused_before_it_asks(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "config").write_text(PROFILES)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    with pytest.raises(NoCredentials, match="requires an MFA code") as caught:
        Aws("us-east-1", profile="guarded").client("sts")
    assert "export-credentials --profile guarded" in str(caught.value.advice)
    assert Aws("us-east-1", profile="role").client("sts")
    # Credentials in the environment go before those of a profile that nothing names.
    monkeypatch.setenv("AWS_DEFAULT_PROFILE", "plain")
    assert Aws("us-east-1").client("sts")


def _told(error: Any) -> str:
    typed = typed_error(error, "us-east-1")
    assert isinstance(typed, EndpointUnreachable)
    return str(typed.advice)


def test_where_aws_does_not_answer_the_proxy_is_named_without_its_password(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = ProxyConnectionError(proxy_url="http://proxy.example.com:3128", error="refused")
    assert _told(refused) == "check the network, a proxy, a VPN"
    monkeypatch.setenv("HTTPS_PROXY", "http://ada:secret@proxy.example.com:3128")
    assert "the proxy proxy.example.com:3128 (HTTPS_PROXY)" in _told(refused)
    assert "secret" not in _told(refused)
    untrusted = SSLError(endpoint_url="https://sts.us-east-1.amazonaws.com", error="self-signed")
    assert "AWS_CA_BUNDLE" in _told(untrusted)
