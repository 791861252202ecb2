"""Where workers join a scheduler: only those on the cluster's own instances come in, whatever certificate they have.

A plugin of Dask's hears of a worker when it has its first tasks; here it is asked before it is one.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any

from terradask_host.rules.membership import Membership, Rules, Verdict, judge

#: So many strangers are told of one by one.
MOST_TOLD = 20

_NAME_CHARACTERS = 64


class WorkerAdmission:
    """Lets a scheduler's workers in, and sends those away that the cluster has no instance for.

    AWS is the host program's to ask: an instance that isn't known yet makes its worker wait for the answer.

    The scheduler doesn't listen yet. Events: ``who`` asks which instances there are, ``refused`` says which worker was sent away.
    """

    def __init__(self, scheduler: Any, rules: Rules, tell: Callable[..., None]) -> None:
        self._scheduler = scheduler
        self._rules = rules
        self._tell = tell
        self._membership = Membership()
        self._told = asyncio.Event()
        self._asked_at = -math.inf
        self._asking = False
        self._refused: set[str] = set()
        self._removing: asyncio.Task[None] | None = None
        self._register = scheduler.handlers["register-worker"]
        scheduler.handlers["register-worker"] = self.register

    async def register(self, comm: Any, *, name: Any, address: str, **facts: Any) -> None:
        """Add a worker, or tell it that this is not its cluster; in the place of Dask's own handler."""
        if await self._is_ours(str(name)):
            # Whoever left while it waited would stay at the scheduler as a dead worker.
            if not comm.closed():
                await self._register(comm, name=name, address=address, **facts)
            return
        self._say_refused(str(name), address)
        message = f"{_short(str(name))} is no instance of this cluster, which takes workers on its own instances alone"
        await comm.write({"status": "error", "message": message, "time": time.time()})

    def update(self, instance_ids: Iterable[str] | None) -> None:
        """Take which instances the cluster has, as AWS shows them; None where AWS doesn't answer."""
        self._asking = False
        if instance_ids is None:
            return
        self._membership = self._membership.updated(instance_ids, time.monotonic(), self._rules)
        told, self._told = self._told, asyncio.Event()
        told.set()
        if self._removing is None or self._removing.done():
            self._removing = asyncio.create_task(self._remove_strangers())

    async def _is_ours(self, name: str) -> bool:
        since = time.monotonic()
        while (verdict := judge(name, since, self._membership, self._rules)) is Verdict.UNKNOWN:
            if not self._asking and time.monotonic() - self._asked_at >= self._rules.ask_seconds:
                self._asking, self._asked_at = True, time.monotonic()
                self._tell("who")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._told.wait(), self._rules.ask_seconds)
        return verdict is Verdict.OURS

    async def _remove_strangers(self) -> None:
        """Remove workers whose instances are no longer the cluster's."""
        for address, worker in list(self._scheduler.workers.items()):
            if judge(str(worker.name), -math.inf, self._membership, self._rules) is Verdict.STRANGER:
                self._say_refused(str(worker.name), address)
                await self._scheduler.remove_worker(address, stimulus_id=f"terradask-stranger-{time.time()}")

    def _say_refused(self, name: str, address: str) -> None:
        if name in self._refused or len(self._refused) >= MOST_TOLD:
            return
        self._refused.add(name)
        more = "; more are refused without a word" if len(self._refused) == MOST_TOLD else ""
        print(f"{_short(name)} at {_short(address)} is no instance of this cluster, and is refused{more}", file=sys.stderr)
        self._tell("refused", name=_short(name), address=_short(address))


def _short(text: str) -> str:
    """Return what a stranger says of itself, fit for a log."""
    return repr(str(text)[:_NAME_CHARACTERS])
