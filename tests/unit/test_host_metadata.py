"""Who a host is, as the instance metadata service tells it."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Iterator

import pytest

from terradask_host.errors import MetadataUnavailable
from terradask_host.metadata import InstanceMetadata

from .host_facts import IDENTITY


class _Service(http.server.BaseHTTPRequestHandler):
    facts: dict[str, str]
    tokens: list[str]

    def do_PUT(self) -> None:
        self.tokens.append(f"token-{len(self.tokens)}")
        self._answer(200, self.tokens[-1])

    def do_GET(self) -> None:
        if self.headers["X-aws-ec2-metadata-token"] != self.tokens[-1]:
            return self._answer(401, "")
        value = self.facts.get(self.path.removeprefix("/latest/"))
        return self._answer(404 if value is None else 200, value or "")

    def _answer(self, status: int, text: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def service() -> Iterator[tuple[str, type[_Service]]]:
    class Service(_Service):
        pass

    Service.tokens = []
    Service.facts = {
        "meta-data/instance-id": "i-1",
        "meta-data/instance-type": "m6i.xlarge",
        "meta-data/local-ipv4": "10.64.16.7",
        "meta-data/placement/availability-zone": "us-east-1a",
        "meta-data/tags/instance/terradask:cluster": "etl",
        "meta-data/tags/instance/terradask:role": "worker",
        "meta-data/tags/instance/terradask:group": "workers",
    }
    server = http.server.HTTPServer(("127.0.0.1", 0), Service)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}", Service
    server.shutdown()
    server.server_close()
    thread.join()


def test_identity_comes_from_metadata_and_tags(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    metadata = InstanceMetadata(endpoint)
    assert metadata.identity() == IDENTITY
    assert metadata.run_id() is None
    handler.facts["meta-data/tags/instance/terradask:run:id"] = "r"
    assert metadata.run_id() == "r"
    assert len(handler.tokens) == 1


def test_an_expired_token_is_renewed(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    metadata = InstanceMetadata(endpoint)
    assert metadata.get("meta-data/instance-id") == "i-1"
    handler.tokens.append("somebody else's")
    assert metadata.get("meta-data/instance-id") == "i-1"


@pytest.mark.parametrize("name", ["cluster", "role", "group"])
def test_a_missing_tag_is_named(service: tuple[str, type[_Service]], name: str) -> None:
    endpoint, handler = service
    del handler.facts[f"meta-data/tags/instance/terradask:{name}"]
    with pytest.raises(MetadataUnavailable, match=f"terradask:{name}"):
        InstanceMetadata(endpoint).identity()


def test_a_role_that_is_none_is_refused(service: tuple[str, type[_Service]]) -> None:
    endpoint, handler = service
    handler.facts["meta-data/tags/instance/terradask:role"] = "manager"
    with pytest.raises(MetadataUnavailable, match="scheduler or worker"):
        InstanceMetadata(endpoint).identity()


@pytest.mark.parametrize("endpoint", ["http://127.0.0.1:9", "127.0.0.1", "https://127.0.0.1"])
def test_no_metadata_service_is_explained(endpoint: str) -> None:
    with pytest.raises(MetadataUnavailable, match="metadata service"):
        InstanceMetadata(endpoint).identity()


@pytest.mark.parametrize(
    ("state", "is_member"), [("InService", True), ("Terminated", False), (None, None)]
)
def test_a_host_knows_whether_it_stays_in_its_group(
    service: tuple[str, type[_Service]], state: str | None, is_member: bool | None
) -> None:
    endpoint, answers = service
    if state is not None:
        answers.facts["meta-data/autoscaling/target-lifecycle-state"] = state
    assert InstanceMetadata(endpoint).is_member() is is_member
