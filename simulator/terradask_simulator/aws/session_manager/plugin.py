"""The embedded AWS's ``session-manager-plugin``: accepts the command line of AWS's own plugin,
prints the same lines, and forwards to the simulator.

It is a standalone program of the standard library. AWS's plugin:
https://github.com/aws/session-manager-plugin
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import signal
import sys
from pathlib import Path

VERSION = "1.2.650.0"

_VARIABLE = "AWS_SSM_START_SESSION_RESPONSE"
_CHUNK = 65_536


def plugin_folder(state_dir: Path) -> Path:
    """Return the folder that must be in ``PATH`` for sessions with an embedded AWS."""
    return state_dir / "bin"


def write_plugin(state_dir: Path) -> None:
    """Write this program into `plugin_folder` as ``session-manager-plugin``."""
    program = plugin_folder(state_dir) / "session-manager-plugin"
    program.parent.mkdir(exist_ok=True)
    words = [sys.executable, "-I", "-S", __file__]
    program.write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n')
    program.chmod(0o755)


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(_CHUNK):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.close()


async def _forward(response: dict[str, str], local_port: int) -> int:
    host, port = response["StreamUrl"].removeprefix("tcp://").split(":")
    token = response["TokenValue"]

    async def connect(kind: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"{token} {kind}\n".encode())
        await writer.drain()
        return reader, writer

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            far_reader, far_writer = await connect("data")
        except OSError:
            # The session ended: as with AWS's plugin, the connection ends with the program, a
            # moment later.
            await asyncio.Event().wait()
            return
        try:
            await asyncio.gather(_pump(reader, far_writer), _pump(far_reader, writer))
        finally:
            far_writer.close()
            writer.close()

    session = response["SessionId"]
    try:
        control, kept = await connect("control")
        server = await asyncio.start_server(accept, "127.0.0.1", local_port)
    except OSError as error:
        print(f"Cannot perform start session: {error}", flush=True)
        return 0
    opened = server.sockets[0].getsockname()[1]
    print(f"Port {opened} opened for sessionId {session}.\nWaiting for connections...", flush=True)
    ended = asyncio.ensure_future(control.read())
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, ended.cancel)
    try:
        await ended
        print(f"Session: {session} timed out.", flush=True)
    except asyncio.CancelledError:
        print(
            f"Terminate signal received, exiting.\nExiting session with sessionId: {session}.",
            flush=True,
        )
    kept.close()
    return 0


def main(arguments: list[str]) -> int:
    """Run the program. Arguments: ``--version``, or StartSession's response, region, operation,
    profile, StartSession's request, endpoint.
    """
    if arguments == ["--version"]:
        print(VERSION)
        return 0
    if len(arguments) != 6 or arguments[2] != "StartSession":
        print("Invalid Operation")
        return 0
    response = json.loads(os.environ[_VARIABLE] if arguments[0] == _VARIABLE else arguments[0])
    print(f"\nStarting session with SessionId: {response['SessionId']}", flush=True)
    parameters = json.loads(arguments[4])["Parameters"]
    return asyncio.run(_forward(response, int(parameters.get("localPortNumber", ["0"])[0])))


if __name__ == "__main__":
    # Sessions end with this program: don't wait for open connections.
    code = main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(code)
