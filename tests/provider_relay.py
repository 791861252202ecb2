"""Stands between Terraform and the AWS provider, and answers one question itself: what types there
are.

``python -m tests.provider_relay`` prints the path of its socket, to which each
`tests/provider_launcher.py` connects, and runs until its standard input ends. Everything else that
Terraform asks goes to a real provider (`tests/kept_providers.py`), and its answer back, byte for
byte.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import functools
import itertools
import json
import signal
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from .kept_providers import OPTIONS, Launch, Provider, Providers
from .provider_schema import cut_down, types_in_use

_SERVICE = "/tfplugin5.Provider/"
_SCHEMA = f"{_SERVICE}GetSchema"
_STOP = f"{_SERVICE}Stop"
_SHUTDOWN = "/plugin.GRPCController/Shutdown"
_LAST_ANSWER_SECONDS = 2.0

#: Of a launcher's variables.
_MOST_BYTES = 2**20


class Relay:
    """What all starts of the provider share.

    Parameters
    ----------
    folder
        Where the sockets are. It must be its owner's alone.
    """

    def __init__(self, folder: Path) -> None:
        self.providers = Providers(folder)
        self._folder = folder
        self._types = types_in_use()
        self._numbers = itertools.count()
        self._schema: bytes | None = None
        certificate, key = _certificate()
        self._credentials = grpc.ssl_server_credentials(
            [(key, certificate.public_bytes(Encoding.PEM))]
        )
        self._certificate = (
            base64.b64encode(certificate.public_bytes(Encoding.DER)).decode().rstrip("=")
        )

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one launcher until it ends."""
        path = self._folder / str(next(self._numbers))
        try:
            told = await reader.readline()
            if not told:
                return
            start = _Start(self, Launch(**json.loads(told)), writer)
            server = grpc.aio.server(options=OPTIONS)
            server.add_generic_rpc_handlers([start])
            server.add_secure_port(f"unix:{path}", self._credentials)
            await server.start()
            try:
                # https://github.com/hashicorp/go-plugin/blob/main/docs/internals.md#handshake; the
                # sixth part is the certificate
                writer.write(f"1|5|unix|{path}|grpc|{self._certificate}\n".encode())
                with contextlib.suppress(ConnectionError):
                    await reader.read()
            finally:
                await server.stop(_LAST_ANSWER_SECONDS)
                start.end()
        finally:
            writer.close()
            path.unlink(missing_ok=True)

    async def schema(self, start: _Start) -> bytes:
        """Return the types; the first start asks its provider for them."""
        if self._schema is None:
            self._schema = cut_down(await start.ask(_SCHEMA, b""), self._types)
        return self._schema


class _Start(grpc.GenericRpcHandler):
    """One start of the provider by Terraform."""

    def __init__(self, relay: Relay, launch: Launch, writer: asyncio.StreamWriter) -> None:
        self._relay, self._launch, self._writer = relay, launch, writer
        self._asked: asyncio.Task[Provider] | None = None
        self._is_over = self._was_stopped = False

    def end(self) -> None:
        """Keep the provider for the next start, if Terraform has let this one end in order."""
        asked, self._asked = self._asked, None
        if asked is None or asked.cancel() or asked.exception() is not None:
            return
        self._relay.providers.give_back(
            asked.result(), is_good=self._is_over and not self._was_stopped and self._launch.is_kept
        )

    async def ask(self, method: str, request: bytes) -> bytes:
        """Have the provider answer."""
        if self._asked is None:
            self._asked = asyncio.create_task(self._relay.providers.take(self._launch))
        provider = await asyncio.shield(self._asked)
        return bytes(await provider.channel.unary_unary(method)(request))

    def service(self, details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler | None:
        """Take what concerns the provider; go-plugin's streams of output and brokers are nothing
        that it uses.
        """
        if details.method.startswith(_SERVICE) or details.method == _SHUTDOWN:
            return grpc.unary_unary_rpc_method_handler(
                functools.partial(self._answer, details.method)
            )
        return None

    async def _answer(
        self, method: str, request: bytes, context: grpc.aio.ServicerContext[Any, Any]
    ) -> bytes:
        if method == _SHUTDOWN:
            self._is_over = True
            self.end()
            self._writer.close()
            return b""
        self._was_stopped |= method == _STOP
        try:
            return await (
                self._relay.schema(self) if method == _SCHEMA else self.ask(method, request)
            )
        except grpc.aio.AioRpcError as error:
            await _refuse(context, error.code(), error.details() or "")
        except OSError as error:
            await _refuse(context, grpc.StatusCode.UNAVAILABLE, str(error))


async def _refuse(
    context: grpc.aio.ServicerContext[Any, Any], code: grpc.StatusCode, details: str
) -> NoReturn:
    await context.abort(code, details)
    raise AssertionError("abort raises")


def _certificate() -> tuple[x509.Certificate, bytes]:
    """Return a certificate and its key: Terraform talks TLS to a provider, and believes the
    certificate that the handshake names.
    """
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    return certificate, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


async def _run(folder: Path) -> None:
    relay, control = Relay(folder), folder / "relay"
    async with await asyncio.start_unix_server(relay.serve, control, limit=_MOST_BYTES):
        print(control, flush=True)
        try:
            await asyncio.to_thread(sys.stdin.buffer.read)
        finally:
            await relay.providers.close()


def main() -> None:
    """Relay until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="terradask-relay-") as folder:
        asyncio.run(_run(Path(folder)))


if __name__ == "__main__":
    main()
