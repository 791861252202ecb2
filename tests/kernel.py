"""A real kernel of Jupyter, and what a notebook shows of the cells that it runs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

from .waiting import PROCESS_SECONDS

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass
class Shown:
    """What a cell shows: printed text, and its error."""

    printed: str = ""
    #: As the kernel sends it, with colours.
    raw: str = ""
    #: Contents of the kernel's messages, by type.
    messages: list[tuple[str, Any]] = field(default_factory=list)

    @property
    def error(self) -> str:
        """The error as a person reads it."""
        return _COLOUR.sub("", self.raw).strip()

    @property
    def frames(self) -> int:
        """The number of shown frames."""
        return len(re.findall(r"^(?:File |Cell In)", self.error, re.MULTILINE))


@dataclass
class Kernel:
    """A running kernel."""

    manager: KernelManager
    client: BlockingKernelClient

    def begin(self, code: str) -> str:
        """Begin to run a cell; return the id for `ended`."""
        return str(self.client.execute(code))

    def interrupt(self) -> None:
        """Interrupt the cell that runs, as Jupyter's stop button does."""
        self.manager.interrupt_kernel()

    def printed_until(self, cell: str, wanted: str) -> None:
        """Wait until a cell has printed a text."""
        printed = ""
        while wanted not in printed:
            kind, content = self._next(cell)
            assert kind != "error", content["traceback"]
            if kind == "stream":
                printed += content["text"]

    def ended(self, cell: str) -> Shown:
        """Wait for the end of a cell."""
        shown = Shown()
        while True:
            kind, content = self._next(cell)
            shown.messages.append((kind, content))
            if kind == "error":
                shown.raw = "\n".join(content["traceback"])
            elif kind == "stream":
                shown.printed += content["text"]
            elif kind == "status" and content["execution_state"] == "idle":
                return shown

    def run(self, code: str) -> Shown:
        """Run a cell to its end."""
        return self.ended(self.begin(code))

    def _next(self, cell: str) -> tuple[str, Any]:
        while True:
            found = self.client.get_iopub_msg(timeout=PROCESS_SECONDS)
            if found["parent_header"].get("msg_id") == cell:
                return found["msg_type"], found["content"]


@contextmanager
def kernel(folder: Path, environ: Mapping[str, str]) -> Iterator[Kernel]:
    """Run a kernel in a folder."""
    manager = KernelManager(kernel_name="python3", transport="ipc", ip=str(folder / "kernel"))
    manager.start_kernel(cwd=str(folder), env=dict(environ))
    client = manager.client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=PROCESS_SECONDS)
        yield Kernel(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
        manager.cleanup_resources()
