"""Worker admission: only workers that prove to be on the cluster's own instances may join a
scheduler, whatever certificate they have.

A Dask plugin would be called only after a worker got its first tasks; this check runs before it
joins.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import sys
import time
from collections.abc import Iterable
from typing import Any

from terradask_host.preload.leave import Questions, Report
from terradask_host.rules import instance_proof
from terradask_host.rules.instance_proof import PROOF_KEY, InstanceProof
from terradask_host.rules.membership import Membership, Rules, Verdict, judge

#: Number of refused workers that are logged one by one.
MAX_LOGGED_REFUSALS = 20

#: Operation by which a worker's host reads the names of its workers at the scheduler.
NAMES_OPERATION = "terradask_names"

_NAME_CHARACTERS = 64

#: How long a worker that was retired before it joined may not join: a throttling AWS may take that
#: long to end its host.
_LEAVING_SECONDS = 60.0
_POLL_SECONDS = 0.1

_NOT_OURS = "it isn't an instance of this cluster, which accepts workers only on its own instances"


class WorkerAdmission:
    """Admits a scheduler's workers that prove to be on the cluster's instance that they name.

    Create it before the scheduler listens. The host program calls AWS, and a worker waits for the
    answer. Events: ``who`` requests the cluster's instances, ``proof`` the check of a proof,
    ``refused`` reports a refused worker.
    """

    def __init__(self, scheduler: Any, rules: Rules, report: Report, questions: Questions) -> None:
        self._scheduler = scheduler
        self._rules = rules
        self._report = report
        self._questions = questions
        self._membership = Membership()
        self._answered = asyncio.Event()
        self._asked_at = -math.inf
        self._asking = False
        self._refused: set[str] = set()
        self._removing: asyncio.Task[None] | None = None
        #: Names of workers that were retired -> until when they may not join.
        self._leaving: dict[str, float] = {}
        self._register = scheduler.handlers["register-worker"]
        scheduler.handlers["register-worker"] = self.register
        self._retire = scheduler.handlers["retire_workers"]
        scheduler.handlers["retire_workers"] = self.retire
        scheduler.handlers[NAMES_OPERATION] = self.names_of

    async def register(
        self, comm: Any, *, name: Any, address: str, extra: Any = None, **facts: Any
    ) -> None:
        """Add a worker or refuse it; replaces Dask's own handler."""
        extra = dict(extra or {})
        # Clients can read a worker's stored facts, so the proof is left out.
        proof = extra.pop(PROOF_KEY, None)
        why = await self._why_not(comm, str(name), proof)
        if why is None:
            while self._is_leaving(str(name)) and not comm.closed():
                await asyncio.sleep(_POLL_SECONDS)
            # A worker that left while it waited would stay at the scheduler as a dead worker.
            if not comm.closed():
                await self._register(comm, name=name, address=address, extra=extra, **facts)
            return
        self._report_refused(str(name), address, why)
        message = f"{_short(str(name))} is refused: {why}"
        await comm.write({"status": "error", "message": message, "time": time.time()})

    # As a patch: host/upstream/retire-before-join.patch
    async def retire(self, *, names: Iterable[Any] | None = None, **options: Any) -> Any:
        """Retire workers, and refuse their names and hosts for some time.

        Replaces Dask's own handler, which ignores names that have not joined. A host's workers are
        retired right before the host ends: a worker that joined in between would lose its tasks.
        """
        if names is not None:
            now = time.monotonic()
            names = self.names_of(names)
            self._leaving = {name: until for name, until in self._leaving.items() if until > now}
            self._leaving |= dict.fromkeys(names, now + _LEAVING_SECONDS)
        return await self._retire(names=names, **options)

    def names_of(self, names: Iterable[Any]) -> list[str]:
        """Return these names of workers, and the numbered names that their class made of them."""
        joined = [str(worker.name) for worker in self._scheduler.workers.values()]
        return self._rules.names_of(names, joined)

    def _is_leaving(self, name: str) -> bool:
        names = (name, self._rules.instance_of(name) or name)
        return any(self._leaving.get(each, 0.0) > time.monotonic() for each in names)

    def update(self, instance_ids: Iterable[str] | None) -> None:
        """Set the cluster's instances, as AWS lists them; None if AWS doesn't answer."""
        self._asking = False
        if instance_ids is None:
            return
        self._membership = self._membership.updated(instance_ids, time.monotonic(), self._rules)
        answered, self._answered = self._answered, asyncio.Event()
        answered.set()
        if self._removing is None or self._removing.done():
            self._removing = asyncio.create_task(self._remove_strangers())

    async def _why_not(self, comm: Any, name: str, document: object) -> str | None:
        """Return the reason to refuse a worker; None if it may join."""
        proof = InstanceProof.read(document)
        role, instance_id = self._rules.host_of(name)
        if instance_id and proof is None:
            return "it has no proof of its instance"
        if proof is None or not await self._is_ours(name):
            return _NOT_OURS
        while not comm.closed():
            found = await self._questions.ask(
                "proof", None, role=role, instance_id=instance_id, proof=proof.to_document()
            )
            verdict = instance_proof.Verdict(found["verdict"])
            if verdict is instance_proof.Verdict.PROVEN:
                return None
            if verdict is instance_proof.Verdict.REFUSED:
                return str(found["why"])
            await asyncio.sleep(self._rules.ask_seconds)
        return "it left before AWS answered"

    async def _is_ours(self, name: str) -> bool:
        since = time.monotonic()
        while (verdict := judge(name, since, self._membership, self._rules)) is Verdict.UNKNOWN:
            if not self._asking and time.monotonic() - self._asked_at >= self._rules.ask_seconds:
                self._asking, self._asked_at = True, time.monotonic()
                self._report("who")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._answered.wait(), self._rules.ask_seconds)
        return verdict is Verdict.OURS

    async def _remove_strangers(self) -> None:
        """Remove workers whose instances no longer belong to the cluster."""
        for address, worker in list(self._scheduler.workers.items()):
            verdict = judge(str(worker.name), -math.inf, self._membership, self._rules)
            if verdict is Verdict.STRANGER:
                self._report_refused(str(worker.name), address, _NOT_OURS)
                # In order: its host is leaving, and its tasks aren't suspicious.
                await self._scheduler.remove_worker(
                    address, stimulus_id=f"terradask-stranger-{time.time()}", expected=True
                )

    def _report_refused(self, name: str, address: str, why: str) -> None:
        if name in self._refused or len(self._refused) >= MAX_LOGGED_REFUSALS:
            return
        self._refused.add(name)
        is_last = len(self._refused) == MAX_LOGGED_REFUSALS
        more = "; further refusals are not logged" if is_last else ""
        text = f"the worker {_short(name)} at {_short(address)} is refused: {why}{more}"
        print(text, file=sys.stderr)
        self._report("refused", name=_short(name), address=_short(address), why=why)


def _short(text: str) -> str:
    """Return an untrusted worker's text, shortened and escaped for a log."""
    return repr(str(text)[:_NAME_CHARACTERS])
