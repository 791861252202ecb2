"""Try to reach targets from a worker's process, or the scheduler's: from its host, with its role.

`try_on_worker` is pickled by the names of this module and itself. Don't rename them: a cluster's
hosts may have two versions.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import terradask_host
from terradask_host.errors import CommandRefused
from terradask_host.preload import reach_probe

#: The scheduler's operation by which a worker reports its findings. The answer to Dask's own
#: operation is pickled: the scheduler doesn't read what workers pickle.
FOUND_OPERATION = "terradask_found"

#: For the way to the worker and back.
_WAY_SECONDS = 10.0

Targets = Sequence[Mapping[str, Any]]


async def try_here(targets: Targets, seconds: float) -> dict[str, Any]:
    """Try targets in a process of its own, with this process's environment and credentials."""
    program = await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", reach_probe.__file__),
        str(Path(terradask_host.__file__).parent.parent),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    order = json.dumps({"targets": list(targets), "seconds": seconds}).encode()
    try:
        async with asyncio.timeout(reach_probe.limit_seconds(seconds)):
            output, errors = await program.communicate(order)
    finally:
        with contextlib.suppress(ProcessLookupError):
            program.kill()
    try:
        found: dict[str, Any] = json.loads(output)
    except ValueError as error:
        last = errors.decode(errors="replace").strip().rpartition("\n")[2]
        raise RuntimeError(f"the program that tries them failed: {last[-300:]}") from error
    return found


async def try_on_worker(targets: Targets, seconds: float, ticket: str, dask_worker: Any) -> None:
    """Try targets in a worker's process, and report the findings to the scheduler."""
    found = await try_here(targets, seconds)
    await getattr(dask_worker.scheduler, FOUND_OPERATION)(ticket=ticket, found=json.dumps(found))


class Reach:
    """Tries targets for a scheduler's clients."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._waiting: dict[str, asyncio.Future[dict[str, Any]]] = {}
        scheduler.handlers[FOUND_OPERATION] = self.take

    def take(self, ticket: str, found: str) -> None:
        """Take a worker's findings, as JSON."""
        waiting = self._waiting.get(ticket)
        if waiting is not None and not waiting.done():
            waiting.set_result(json.loads(found))

    async def try_targets(
        self, targets: Targets, seconds: float, worker: str | None
    ) -> dict[str, Any]:
        """Return the findings of a worker, or, without one, of the scheduler's process."""
        try:
            async with asyncio.timeout(reach_probe.limit_seconds(seconds) + _WAY_SECONDS):
                if worker is None:
                    return await try_here(targets, seconds)
                return await self._try_there(worker, targets, seconds)
        except TimeoutError as error:
            raise CommandRefused(
                f"{worker or 'the scheduler'} didn't answer in time",
                advice="a task that lets no other code run may keep it busy: try again",
            ) from error

    async def _try_there(self, name: str, targets: Targets, seconds: float) -> dict[str, Any]:
        from distributed.protocol.pickle import dumps

        workers = self._scheduler.workers
        at = [address for address, each in workers.items() if str(each.name) == name]
        if not at:
            raise CommandRefused("the worker has left", given=name, advice="try again")
        ticket = secrets.token_hex(16)
        found: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        self._waiting[ticket] = found
        wanted = {"targets": targets, "seconds": seconds, "ticket": ticket}
        message = {"op": "run", "function": dumps(try_on_worker), "kwargs": dumps(wanted)}
        try:
            answers = await self._scheduler.broadcast(msg=message, workers=at, on_error="return")
            (answer,) = answers.values()
            if not isinstance(answer, Mapping) or answer.get("status") != "OK":
                why = answer.get("exception_text") if isinstance(answer, Mapping) else answer
                raise CommandRefused(
                    f"its worker can't try them: {why}",
                    given=name,
                    advice="a host of an older terradask can't: stop and start the cluster",
                )
            return await found
        finally:
            del self._waiting[ticket]
