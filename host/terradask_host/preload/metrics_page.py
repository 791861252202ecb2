"""The page with a scheduler's gauges, for Prometheus: all that its certificate opens."""

from __future__ import annotations

import asyncio

from terradask_host.http_proxy.admission import refusal
from terradask_host.http_proxy.pages import METRICS_PAGE
from terradask_host.http_proxy.request import BadRequest
from terradask_host.http_proxy.server import read_request
from terradask_host.preload.gauges import Gauges
from terradask_host.rules.metric_formats import PROMETHEUS_TYPE, prometheus_text


class MetricsPage:
    """Answers one request of a connection: with the gauges, or with 403."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer. Raises ``OSError``."""
        try:
            request = await read_request(reader)
        except BadRequest as error:
            writer.write(refusal(400, f"This is no request that can be understood. {error}"))
            return
        if request is None:
            return
        if (request.method, request.path) != ("GET", METRICS_PAGE):
            writer.write(refusal(403, f"This certificate opens GET {METRICS_PAGE} alone."))
            return
        content = prometheus_text(self._gauges.values()).encode()
        head = [
            "HTTP/1.1 200 OK",
            f"Content-Type: {PROMETHEUS_TYPE}",
            f"Content-Length: {len(content)}",
            "Cache-Control: no-store",
            "X-Content-Type-Options: nosniff",
            "Connection: close",
        ]
        writer.write("\r\n".join(head).encode() + b"\r\n\r\n" + content)
        await writer.drain()
