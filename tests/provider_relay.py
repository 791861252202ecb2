"""Stands between Terraform and the AWS provider, and answers one question itself: what types there
are.

``python -m tests.provider_relay`` prints the path of its socket, to which each
`tests/provider_launcher.py` connects, and runs until its standard input ends. Everything else that
Terraform asks goes to a real provider, one for each start, and its answer back, byte for byte.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import functools
import itertools
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

from .provider_schema import cut_down, types_in_use

_SERVICE = "/tfplugin5.Provider/"
_SCHEMA = f"{_SERVICE}GetSchema"
_SHUTDOWN = "/plugin.GRPCController/Shutdown"
_OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]
_LAST_ANSWER_SECONDS = 2.0


class Relay:
    """What all starts of the provider share.

    Parameters
    ----------
    folder
        Where the sockets are. It must be its owner's alone.
    """

    def __init__(self, folder: Path) -> None:
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
        """Serve one launcher, and the provider that it becomes, until it ends."""
        path = self._folder / str(next(self._numbers))
        start = _Start(self, reader, writer)
        server = grpc.aio.server(options=_OPTIONS)
        server.add_generic_rpc_handlers([start])
        server.add_secure_port(f"unix:{path}", self._credentials)
        await server.start()
        try:
            # https://github.com/hashicorp/go-plugin/blob/main/docs/internals.md#handshake; the
            # sixth part is the certificate
            writer.write(f"1|5|unix|{path}|grpc|{self._certificate}\n".encode())
            await start.ended()
        finally:
            writer.close()
            await server.stop(_LAST_ANSWER_SECONDS)
            path.unlink(missing_ok=True)

    async def schema(self, start: _Start) -> bytes:
        """Return the types; the first start asks its provider for them."""
        if self._schema is None:
            self._schema = cut_down(await start.ask(_SCHEMA, b""), self._types)
        return self._schema


class _Start(grpc.GenericRpcHandler):
    """One start of the provider by Terraform."""

    def __init__(
        self, relay: Relay, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._relay, self._reader, self._writer = relay, reader, writer
        self._asked_for = False
        self._provider: asyncio.Future[grpc.aio.Channel] = (
            asyncio.get_running_loop().create_future()
        )

    async def ended(self) -> None:
        """Wait until the launcher, or the provider that it has become, has ended."""
        with contextlib.suppress(ConnectionError):
            handshake = (await self._reader.readline()).decode().split("|")
            if len(handshake) >= 5:
                async with grpc.aio.insecure_channel(
                    f"unix:{handshake[3]}", options=_OPTIONS
                ) as channel:
                    self._provider.set_result(channel)
                    while await self._reader.read(4096):
                        pass
        self._provider.cancel()

    async def ask(self, method: str, request: bytes) -> bytes:
        """Have the provider answer."""
        if not self._asked_for:
            self._asked_for = True
            self._writer.write(b"!")
        channel = await asyncio.shield(self._provider)
        return bytes(await channel.unary_unary(method)(request))

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
        if method == _SHUTDOWN and not self._asked_for:
            self._writer.close()
            return b""
        try:
            return await (
                self._relay.schema(self) if method == _SCHEMA else self.ask(method, request)
            )
        except grpc.aio.AioRpcError as error:
            await _refuse(context, error.code(), error.details() or "")
        except asyncio.CancelledError:
            if not self._provider.cancelled():
                raise
            await _refuse(context, grpc.StatusCode.UNAVAILABLE, "the provider has ended")


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
    async with await asyncio.start_unix_server(relay.serve, control):
        print(control, flush=True)
        await asyncio.to_thread(sys.stdin.buffer.read)


def main() -> None:
    """Relay until the standard input ends."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with tempfile.TemporaryDirectory(prefix="terradask-relay-") as folder:
        asyncio.run(_run(Path(folder)))


if __name__ == "__main__":
    main()
