"""A host's metadata service, and where it answers, as only the host itself gets to know."""

from __future__ import annotations

import http.client
from urllib.parse import urlsplit

import psutil
from tests.waiting import HANG_SECONDS, eventually

from terradask_simulator import HostInfo


def metadata_of(host: HostInfo) -> str:
    """Return the endpoint in the environment of a host's process."""
    process = psutil.Process(host.pid)
    # A process that was just forked shows that of the one which it comes from.
    return str(eventually(lambda: process.environ().get("AWS_EC2_METADATA_SERVICE_ENDPOINT")))


class Imds:
    """Asks an instance's metadata service."""

    def __init__(self, endpoint: str) -> None:
        parts = urlsplit(endpoint)
        self.address, self.prefix = str(parts.hostname), parts.path

    def ask(self, path: str, method: str = "GET", **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self.address, 1338, timeout=HANG_SECONDS)
        try:
            connection.request(
                method,
                self.prefix + path,
                headers={name.replace("_", "-"): value for name, value in headers.items()},
            )
            response = connection.getresponse()
            return response.status, response.read().decode()
        finally:
            connection.close()

    def token(self) -> str:
        return self.ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="60")[1]

    def get(self, path: str) -> tuple[int, str]:
        return self.ask(f"/latest/{path}", X_aws_ec2_metadata_token=self.token())
