"""Credentials on loopback: whom the door answers, and what AWS's SDK for Python makes of it."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from botocore.credentials import ContainerProvider
from botocore.exceptions import CredentialRetrievalError
from botocore.utils import ContainerMetadataFetcher

from terradask_host.preload.credentials_endpoint import CredentialsEndpoint

from ..waiting import HANG_SECONDS


def credentials(name: str, *, minutes: float = 60) -> dict[str, str]:
    at = datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=minutes)
    return {
        "AccessKeyId": name,
        "SecretAccessKey": f"{name}-key",
        "Token": f"{name}-token",
        "Expiration": f"{at:%Y-%m-%dT%H:%M:%SZ}",
    }


@pytest.fixture
def door() -> Iterator[CredentialsEndpoint]:
    door = CredentialsEndpoint()
    door.hold(credentials("first"))
    yield door
    door.close()


def provider(door: CredentialsEndpoint) -> ContainerProvider:
    return ContainerProvider(
        environ=door.variables, fetcher=ContainerMetadataFetcher(sleep=lambda _: None)
    )


def ask(url: str, token: str | None) -> tuple[int, dict[str, str]]:
    request = urllib.request.Request(url, headers={} if token is None else {"Authorization": token})
    try:
        with urllib.request.urlopen(request, timeout=HANG_SECONDS) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


@pytest.mark.parametrize("token", [None, "", "another", "ä"])
def test_nobody_is_answered_without_the_token(door: CredentialsEndpoint, token: str | None) -> None:
    status, answer = ask(
        door.variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        None if token is None else token.encode().decode("latin-1"),
    )
    assert status == 403
    assert answer["code"] == "AccessDenied"
    assert "first" not in str(answer)


def test_it_listens_on_loopback_alone_and_has_one_path(door: CredentialsEndpoint) -> None:
    url, token = (
        door.variables[f"AWS_CONTAINER_{name}"]
        for name in ("CREDENTIALS_FULL_URI", "AUTHORIZATION_TOKEN")
    )
    assert url.startswith("http://127.0.0.1:")
    assert ask(url, token) == (
        200,
        credentials("first") | {"Expiration": ask(url, token)[1]["Expiration"]},
    )
    assert ask(f"{url}/more", token)[0] == 404


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="the system has no files in memory")
def test_the_token_is_in_a_file_that_lies_on_no_disk_and_that_other_processes_read(
    door: CredentialsEndpoint,
) -> None:
    path = door.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"]
    assert Path(path).read_text() == door.variables["AWS_CONTAINER_AUTHORIZATION_TOKEN"]
    assert "memfd:" in str(Path(path).readlink())
    read = [sys.executable, "-c", f"print(open({path!r}).read(), end='')"]
    assert (
        subprocess.run(read, capture_output=True, check=True, text=True).stdout
        == Path(path).read_text()
    )


def test_the_sdk_takes_newer_ones_before_the_older_expire(door: CredentialsEndpoint) -> None:
    door.hold(credentials("older", minutes=14))
    held = provider(door).load()
    assert held is not None
    assert (held.access_key, held.secret_key, held.token) == ("older", "older-key", "older-token")
    door.hold(credentials("newer"))
    assert held.get_frozen_credentials().access_key == "newer"
    door.hold(credentials("newest"))
    # Those are good for an hour.
    assert held.get_frozen_credentials().access_key == "newer"


def test_what_has_expired_is_not_handed_out_and_the_sdks_error_says_what_to_do(
    door: CredentialsEndpoint,
) -> None:
    door.hold(credentials("old", minutes=-1))
    with pytest.raises(
        CredentialRetrievalError, match=r"expired at 20.*Attach again: Cluster\.from_name"
    ) as caught:
        provider(door).load()
    assert "old-key" not in str(caught.value)
