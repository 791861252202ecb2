"""Who calls: clients of whoever holds some credentials, and whether their calls are refused."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from typing import Any

import boto3
from botocore.exceptions import ClientError

from terradask_simulator import Simulator
from terradask_simulator.aws.access_keys import read_owner_key
from terradask_simulator.environment import credentials_path

ACCOUNT, REGION = "123456789012", "us-east-1"
REFUSALS = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation", "403"}


class Account:
    """Clients with the credentials of an environment, by default the owner's, closed together."""

    def __init__(
        self, simulator: Simulator, environ: Mapping[str, str], clients: contextlib.ExitStack
    ) -> None:
        self._endpoint_url, self._clients = simulator.endpoint_url, clients
        if "AWS_ACCESS_KEY_ID" not in environ:
            owner = read_owner_key(credentials_path(simulator.state_dir))
            environ = {
                "AWS_ACCESS_KEY_ID": owner.access_key_id,
                "AWS_SECRET_ACCESS_KEY": owner.secret,
            }
        self._session = boto3.Session(
            aws_access_key_id=environ["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=environ["AWS_SECRET_ACCESS_KEY"],
            aws_session_token=environ.get("AWS_SESSION_TOKEN"),
            region_name=REGION,
        )

    def client(self, service: str, region: str = REGION) -> Any:
        client = self._session.client(service, endpoint_url=self._endpoint_url, region_name=region)  # type: ignore[call-overload]
        self._clients.callback(client.close)
        return client


def host(owner: Account, simulator: Simulator, clients: contextlib.ExitStack, role: str) -> Account:
    """Return what a host can call whose role has a name, and path."""
    session = owner.client("sts").assume_role(
        RoleArn=f"arn:aws:iam::{ACCOUNT}:role/{role}", RoleSessionName="i-0"
    )
    names = {
        "AWS_ACCESS_KEY_ID": "AccessKeyId",
        "AWS_SECRET_ACCESS_KEY": "SecretAccessKey",
        "AWS_SESSION_TOKEN": "SessionToken",
    }
    return Account(
        simulator, {name: session["Credentials"][key] for name, key in names.items()}, clients
    )


def refused(call: Any, **parameters: Any) -> str:
    """Return the message of a refusal, or nothing where the call was let through."""
    try:
        call(**parameters)
    except ClientError as error:
        found = error.response["Error"]
        return found["Message"] if found["Code"] in REFUSALS else ""
    return ""


def code_of(call: Any, **parameters: Any) -> str:
    """Return the code of a call's error, or nothing where it succeeds."""
    try:
        call(**parameters)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""
