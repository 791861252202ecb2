"""Real AWS providers that serve one start after another.

To start takes one half of a second of a processor's time, and Terraform starts six for one
cluster's life. Between two starts a provider is kept, as `Terraform's own debugging
<https://developer.hashicorp.com/terraform/plugin/debugging>`_ keeps it: each walk configures it
anew. It serves one start at a time, of the same variables alone, and none after one that was
stopped or broke off.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import grpc.aio

OPTIONS = [("grpc.max_receive_message_length", -1), ("grpc.max_send_message_length", -1)]

#: Set to anything, it has the provider end with its start.
UNKEPT_VARIABLE = "TESTS_UNKEPT_PROVIDER"

#: How many wait for their next start: each has 300 MB.
_MOST = 2

#: What the provider, AWS's SDK and Go's libraries read.
_READ = ("AWS_", "TF_", "HTTP", "http", "NO_PROXY", "no_proxy", "SSL_", "GO", "HOME", "XDG_")

#: Becomes the program, which ends with the process that started it.
_BECOME = """
import ctypes, os, signal, sys
PR_SET_PDEATHSIG = 1
getattr(ctypes.CDLL(None), "prctl", lambda *_: None)(PR_SET_PDEATHSIG, signal.SIGKILL)
os.execv(sys.argv[1], sys.argv[1:])
"""


@dataclass(frozen=True)
class Launch:
    """How Terraform has started the provider.

    Parameters
    ----------
    program
        The real provider's.
    environ, folder
        Its variables, and where it runs.
    """

    program: str
    environ: Mapping[str, str]
    folder: str

    @property
    def is_kept(self) -> bool:
        """Whether another start may have it afterwards."""
        return UNKEPT_VARIABLE not in self.environ

    def key(self) -> tuple[object, ...]:
        """Return what is the same where one provider can serve both."""
        read = sorted(pair for pair in self.environ.items() if pair[0].startswith(_READ))
        # Only a configuration that names files has folders beside it.
        has_files = any(
            path.is_dir() and not path.name.startswith(".") for path in Path(self.folder).iterdir()
        )
        return self.program, *read, self.folder if has_files else None


@dataclass
class Provider:
    """A provider that runs, and the connection to it."""

    key: tuple[object, ...]
    process: Process
    channel: grpc.aio.Channel


class Providers:
    """Starts providers, and keeps a few.

    Parameters
    ----------
    folder
        Where their sockets are.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._kept: list[Provider] = []

    async def take(self, launch: Launch) -> Provider:
        """Return one for a start, which has it for itself."""
        key = launch.key()
        for provider in self._kept:
            if provider.key == key and provider.process.returncode is None:
                self._kept.remove(provider)
                return provider
        # Without a certificate of Terraform's, it talks without TLS.
        environ = {n: v for n, v in launch.environ.items() if n != "PLUGIN_CLIENT_CERT"}
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-IS", "-c", _BECOME, launch.program),
            env=environ | {"TMPDIR": str(self._folder)},
            cwd=launch.folder,
            stdin=DEVNULL,
            stdout=PIPE,
            stderr=DEVNULL,
        )
        assert process.stdout is not None
        handshake = (await process.stdout.readline()).decode().split("|")
        if len(handshake) < 5:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise ChildProcessError("the AWS provider doesn't start")
        channel = grpc.aio.insecure_channel(f"unix:{handshake[3]}", options=OPTIONS)
        return Provider(key, process, channel)

    def give_back(self, provider: Provider, *, is_good: bool) -> None:
        """Keep one for the next start, or end it."""
        if not is_good:
            _end(provider)
            return
        self._kept.append(provider)
        for oldest in self._kept[:-_MOST]:
            self._kept.remove(oldest)
            _end(oldest)

    async def close(self) -> None:
        """End those that are kept."""
        for provider in self._kept:
            _end(provider)
            await provider.process.wait()


def _end(provider: Provider) -> None:
    if provider.process.returncode is None:
        provider.process.kill()
