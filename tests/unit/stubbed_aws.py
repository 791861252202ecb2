"""AWS whose answers a test gives beforehand."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from botocore.stub import Stubber

from terradask._aws.session import Aws

ACCOUNT = "123456789012"


class StubbedAws(Aws):
    """AWS whose answers are written down beforehand."""

    account_id = ACCOUNT
    partition = "aws"

    def __init__(self) -> None:
        super().__init__("us-east-1")
        self.stubbers: dict[str, Stubber] = {}

    def client(self, name: str) -> Any:
        client = super().client(name)
        if name not in self.stubbers:
            self.stubbers[name] = Stubber(client)
            self.stubbers[name].activate()
        return client

    def stub(self, name: str) -> Stubber:
        self.client(name)
        return self.stubbers[name]


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[StubbedAws]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    stubbed = StubbedAws()
    yield stubbed
    for stubber in stubbed.stubbers.values():
        stubber.assert_no_pending_responses()
