"""Moves workers between their group's markets, from the scheduler's host: to on demand when Spot
capacity is missing, and back to Spot.
"""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from terradask_host.agent.aws import error_code
from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.launch_problem import CapacityMemory, LaunchProblem
from terradask_host.rules.lifetime import duration
from terradask_host.rules.load import Load
from terradask_host.rules.markets import PendingGroups, lacking, moved_on, pending_raises
from terradask_host.rules.scaling import Decision, Shrink, WorkersSeen, numbers
from terradask_host.rules.spot_return import (
    Begin,
    Cut,
    Retire,
    begin,
    go_on,
    may_begin,
    surplus,
)
from terradask_host.scaling_policy import Exchange
from terradask_host.timing import Timing

#: Returns the time and cause of an Auto Scaling group's recent failed launches.
Failures = Callable[[str], Sequence[tuple[datetime.datetime, LaunchProblem]]]

#: Older exchanges are polled no more often than other groups.
_YOUNG_SECONDS = 60.0

#: Pause before a host whose data had no space elsewhere is retired again.
_RETIRED_AGAIN_SECONDS = 60.0

#: Limit of AWS's texts in messages.
_TOLD_CHARACTERS = 240


class Markets:
    """Moves hosts of groups with several markets; used by the scaling thread.

    After `fallback_seconds` without an instance the next market is used. Failures before `since`,
    the start of the run, belong to another run. `send` sends a message to the scheduler's process,
    and `report` receives a group and the change.
    """

    def __init__(
        self,
        hosts: WorkerHosts,
        failures: Failures,
        timing: Timing,
        *,
        fallback_seconds: float,
        since: datetime.datetime,
        exchanges: KeptByGroup[Exchange],
        send: Callable[[Mapping[str, Any]], None],
        report: Callable[[str, str], None],
        log: Callable[[str], None],
    ) -> None:
        self._hosts, self._failures, self._timing = hosts, failures, timing
        self._fallback_seconds, self._since = fallback_seconds, since
        self._exchanges = exchanges
        self._send, self._report, self._log = send, report, log
        self._memory = CapacityMemory(timing.launch_failed_seconds)
        self._pending = PendingGroups()
        self._may_read = True
        now = time.monotonic()
        #: Group of workers -> time of the next try of Spot.
        self._spot_again: dict[str, float] = {}
        self._first_again = now + timing.spot_again_seconds
        #: Group of workers -> time of the next retirement of on-demand hosts.
        self._retire_again: dict[str, float] = {}
        self._told_short: dict[str, str] = {}
        self._polled_at = self._busy_since = now

    @property
    def exhausted(self) -> frozenset[str]:
        """Auto Scaling groups with failed launches in the last minutes."""
        return self._memory.exhausted(time.monotonic())

    def workers(self, group: str) -> WorkersSeen:
        """Return a group's workers as last read, without instances requested to replace others."""
        return self._hosts.workers(group, self.surplus(group))

    def act(self, decision: Decision, *, of_client: bool = False) -> bool:
        """Apply a decision, and return whether it changed anything.

        A client's number goes to the first market, and holds even if data has no space elsewhere.
        """
        self._hosts.stale = True
        changed = numbers(
            decision,
            self.workers(decision.group),
            given_up=self._hosts.given_up,
            avoided=() if of_client else self.exhausted,
        )
        self._hosts.set_desired(changed)
        if isinstance(decision, Shrink):
            # They don't wait for the others' data.
            self._hosts.retire(decision.booting, forced=True)
            self._hosts.retire(decision.retired, forced=of_client)
        return isinstance(decision, Shrink) or bool(changed)

    def surplus(self, group: str) -> int:
        """Return how many hosts of a group are requested to replace others."""
        exchange = self._exchanges.get(group)
        return 0 if exchange is None else surplus(exchange, self._hosts.workers(group))

    def absorb(self, group: str) -> bool:
        """End a group's exchange: all requested instances count from now on.

        Return whether there was an exchange.
        """
        if self._exchanges.get(group) is None:
            return False
        self._postpone_spot(group)
        self._exchanges.end(group)
        return True

    def forget_retirements(self) -> None:
        """Note that the scheduler's process has stopped retiring: the next request goes at once."""
        self._retire_again.clear()

    def pause_seconds(self) -> float:
        """Return the time until the next poll."""
        now = time.monotonic()
        young = self._hosts.stale or now - self._busy_since < _YOUNG_SECONDS
        pause = self._timing.launch_poll_seconds if young else self._timing.market_poll_seconds
        return max(self._polled_at + pause - now, 0.0)

    def turn(self, load: Load | None = None) -> None:
        """Poll the markets and act; actions that may move data need a `load`."""
        try:
            self._turn(load, time.monotonic())
        finally:
            # AWS may answer slowly: leave time for other work until the next turn.
            self._polled_at = time.monotonic()

    def _turn(self, load: Load | None, now: float) -> None:
        if not self._hosts.refresh(now) and self._hosts.stale:
            return
        chains = {name: chain for name, chain in self._hosts.seen.items() if len(chain) > 1}
        self._pending.update((group for chain in chains.values() for group in chain), now)
        if not (self._pending.names or self._exchanges):
            self._busy_since = float("-inf")
        elif self._busy_since == float("-inf"):
            self._busy_since = now
        self._read_failures(now)
        self._exchanges.store()
        for name, chain in chains.items():
            self._step(name, chain, load, now)
        if load is None and any(self._wants_load(name, now) for name in chains):
            self._send({"do": "observe"})

    # ---- one group -------------------------------------------------------------------------------

    def _step(self, name: str, chain: tuple[Group, ...], load: Load | None, now: float) -> None:
        stuck = self._stuck(now)
        self._report_shortage(name, chain[-1], now)
        exchange = self._exchanges.get(name)
        if exchange is not None and exchange.spot is not None:
            self._finish_fall_back(name, exchange, chain)
        elif exchange is not None:
            self._continue_exchange(name, exchange, stuck, load, now)
        elif stuck & {group.name for group in chain}:
            self._fall_back(name, chain, stuck, now)
        elif load is not None and now >= self._spot_retry_at(name):
            first = begin(self._hosts.workers(name), self._closed(now), load.joined)
            if first is not None:
                self._begin_exchange(name, first)

    def _fall_back(
        self, name: str, chain: tuple[Group, ...], stuck: frozenset[str], now: float
    ) -> None:
        lowered, raised = self._moved_on(chain, stuck)
        if not raised:
            return
        ((spot, number),) = lowered.items()
        count = chain[0].desired - number
        self._postpone_spot(name)
        self._exchanges.begin(name, Exchange(sum(group.desired for group in chain), count, number))
        # Instances may have come meanwhile: AWS would end any of the existing ones.
        self._hosts.read_groups(time.monotonic())
        if self._moved_on(self._hosts.seen.get(name, ()), stuck) != (lowered, raised):
            self._end(name)
            return
        # Lower first: an interruption in between leaves too few hosts for a moment, not too many.
        self._hosts.set_desired(lowered)
        self._report(
            name,
            f"{_hosts(count, 'moves', 'move')} from {spot} to {', '.join(raised)}: "
            f"{self._cause(spot, now)}. {self._spot_retry_text()}",
        )
        self._hosts.set_desired(raised)
        self._end(name)

    def _moved_on(
        self, chain: Iterable[Group], stuck: frozenset[str]
    ) -> tuple[dict[str, int], dict[str, int]]:
        return moved_on([one for one in chain if one.name not in self._hosts.given_up], stuck)

    def _finish_fall_back(self, name: str, exchange: Exchange, chain: tuple[Group, ...]) -> None:
        """Finish a move to on demand that a failed call or an ended host program interrupted."""
        if raised := pending_raises(exchange, chain):
            self._hosts.set_desired(raised)
            self._report(
                name,
                f"{_hosts(exchange.count)} of {chain[0].name} moved to {', '.join(raised)}",
            )
        self._end(name)

    def _begin_exchange(self, name: str, first: Begin) -> None:
        self._exchanges.begin(name, first.exchange)
        self._retire_again.pop(name, None)
        self._hosts.set_desired({first.spot: first.number})
        count = first.exchange.count
        self._report(
            name,
            f"{_hosts(count)} on demand may go back to spot: as many instances are requested in "
            f"{first.spot}; when they have joined, as many on demand leave",
        )

    def _continue_exchange(
        self,
        name: str,
        exchange: Exchange,
        stuck: frozenset[str],
        load: Load | None,
        now: float,
    ) -> None:
        step = go_on(exchange, self._hosts.workers(name), stuck, load)
        if isinstance(step, Cut):
            self._postpone_spot(name)
            self._hosts.set_desired({step.spot: step.number})
            self._report(
                name,
                f"{_hosts(step.count, 'stays', 'stay')} on demand: {self._cause(step.spot, now)}. "
                f"{self._spot_retry_text()}",
            )
        elif isinstance(step, Retire):
            if now >= self._retire_again.get(name, now):
                self._retire_again[name] = now + _RETIRED_AGAIN_SECONDS
                self._hosts.retire(step.instance_ids, drain=True)
                self._report(
                    name,
                    f"spot instances have joined: {_hosts(len(step.instance_ids))} on demand may "
                    "finish what runs there, move results, and leave",
                )
        elif step is not None:
            if not step.done:
                self._postpone_spot(name)
                self._report(name, "a client changed its number during the return to spot")
            self._end(name)

    def _report_shortage(self, name: str, last: Group, now: float) -> None:
        problems = self._memory.problems(last.name, now) if lacking(last) else ()
        if not problems:
            if not lacking(last):
                self._told_short.pop(name, None)
        elif self._told_short.get(name) != problems[0].code:
            self._told_short[name] = problems[0].code
            self._report(
                name,
                f"{_hosts(lacking(last), 'is', 'are')} missing on every market: "
                f"{self._cause(last.name, now)}. AWS keeps trying in {last.name}",
            )

    # ---- causes of missing capacity --------------------------------------------------------------

    def _read_failures(self, now: float) -> None:
        """Read the causes of a group's missing instances: the group read longest ago."""
        if not (self._pending.names and self._may_read):
            return
        name = self._pending.next_to_ask()
        try:
            failures = self._failures(name)
        except Exception as error:  # noqa: BLE001 - without causes, only the time decides
            code = error_code(error)
            self._may_read = not code.startswith(("AccessDenied", "Unauthorized"))
            self._log(f"why {name} lacks instances can't be read: {code}: {error}")
            return
        here = datetime.datetime.now(datetime.UTC)
        for at, problem in failures:
            if at >= self._since:
                self._memory.note(name, problem, now - (here - at).total_seconds())

    def _stuck(self, now: float) -> frozenset[str]:
        late = self._pending.late(now, self._fallback_seconds)
        return frozenset(self._pending.names) & (self._memory.exhausted(now) | late)

    def _closed(self, now: float) -> frozenset[str]:
        return self._memory.exhausted(now) | self._hosts.given_up

    def _wants_load(self, name: str, now: float) -> bool:
        seen = self._hosts.workers(name)
        if self._exchanges.get(name) is not None:
            return self.surplus(name) > 0 and not lacking(seen.chain[0])
        return now >= self._spot_retry_at(name) and may_begin(seen, self._closed(now))

    def _spot_retry_at(self, name: str) -> float:
        return self._spot_again.get(name, self._first_again)

    def _postpone_spot(self, name: str) -> None:
        self._spot_again[name] = time.monotonic() + self._timing.spot_again_seconds

    def _spot_retry_text(self) -> str:
        return f"Spot is tried again in {duration(self._timing.spot_again_seconds)}"

    def _cause(self, group: str, now: float) -> str:
        problems = self._memory.problems(group, now)
        if not problems:
            return f"{group} got no instance for {duration(self._fallback_seconds)}"
        return f"AWS has none in {group}: {str(problems[0])[:_TOLD_CHARACTERS].rstrip(' .')}"

    def _end(self, name: str) -> None:
        # A closing program may not have sent the last number: the next one checks.
        if not self._hosts.closing.is_set():
            self._exchanges.end(name)


def _hosts(count: int, one: str = "", several: str = "") -> str:
    """Return a number of hosts, with a verb in singular or plural."""
    return (f"1 host {one}" if count == 1 else f"{count} hosts {several or one}").rstrip()
