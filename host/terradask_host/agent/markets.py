"""Moving workers between the markets of their group, from the scheduler's host: on demand for what
spot has no capacity for, and back to spot.
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
from terradask_host.rules.markets import PendingGroups, lacking, moved_on, still_owed
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

#: When and why launches of an Auto Scaling group failed lately.
Failures = Callable[[str], Sequence[tuple[datetime.datetime, LaunchProblem]]]

#: After that, what is under way is looked at no more often than what is not.
_YOUNG_SECONDS = 60.0

#: A host whose data had no room elsewhere is asked again after this.
_RETIRED_AGAIN_SECONDS = 60.0

#: AWS's texts are told to this length.
_TOLD_CHARACTERS = 240


class Markets:
    """Looks at groups of workers on several markets, and acts; used by the thread that scales.

    Parameters
    ----------
    hosts
        The hosts of workers at AWS.
    failures
        Reads why launches failed.
    fallback_seconds
        So long a group may get no instance before the next market is asked.
    since
        When the run began: what failed before is another run's.
    exchanges
        Those that are under way.
    send
        Sends a word to the scheduler's process.
    tell
        Takes a group and what was done to it.
    log
        Takes lines.
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
        tell: Callable[[str, str], None],
        log: Callable[[str], None],
    ) -> None:
        self._hosts, self._failures, self._timing = hosts, failures, timing
        self._fallback_seconds, self._since = fallback_seconds, since
        self._exchanges = exchanges
        self._send, self._tell, self._log = send, tell, log
        self._memory = CapacityMemory(timing.launch_failed_seconds)
        self._pending = PendingGroups()
        self._may_read = True
        now = time.monotonic()
        #: Group of workers -> when spot is tried again.
        self._spot_again: dict[str, float] = {}
        self._first_again = now + timing.spot_again_seconds
        #: Group of workers -> when hosts on demand are retired again.
        self._retire_again: dict[str, float] = {}
        self._told_short: dict[str, str] = {}
        self._turned_at = self._busy_since = now

    @property
    def exhausted(self) -> frozenset[str]:
        """Auto Scaling groups in which launches have failed in the last minutes."""
        return self._memory.exhausted(time.monotonic())

    def workers(self, group: str) -> WorkersSeen:
        """Return a group of workers as it was read; what is asked for in place of others doesn't
        count.
        """
        return self._hosts.workers(group, self.surplus(group))

    def act(self, decision: Decision, *, of_client: bool = False) -> bool:
        """Do what was decided, and return whether anything was to do.

        A number of a client's asks the first market, and holds where data has room nowhere else.
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
            # They wait for none of the others' data.
            self._hosts.retire(decision.booting, forced=True)
            self._hosts.retire(decision.retired, forced=of_client)
        return isinstance(decision, Shrink) or bool(changed)

    def surplus(self, group: str) -> int:
        """Return how many hosts of a group are asked for in place of others."""
        exchange = self._exchanges.get(group)
        return 0 if exchange is None else surplus(exchange, self._hosts.workers(group))

    def absorb(self, group: str) -> bool:
        """End a group's exchange where it stands: all that is asked for counts from now on.

        Return whether there was one.
        """
        if self._exchanges.get(group) is None:
            return False
        self._put_off(group)
        self._exchanges.end(group)
        return True

    def forget_retirements(self) -> None:
        """Note that the scheduler's process retires none any more: the next is asked at once."""
        self._retire_again.clear()

    def pause_seconds(self) -> float:
        """Return how long there is nothing to do here."""
        now = time.monotonic()
        young = self._hosts.stale or now - self._busy_since < _YOUNG_SECONDS
        look = self._timing.launch_look_seconds if young else self._timing.market_look_seconds
        return max(self._turned_at + look - now, 0.0)

    def turn(self, load: Load | None = None) -> None:
        """Look, and do what is to be done; with a `load` also what may move data."""
        try:
            self._turn(load, time.monotonic())
        finally:
            # However slowly AWS answers, there is time for other things until the next turn.
            self._turned_at = time.monotonic()

    def _turn(self, load: Load | None, now: float) -> None:
        if not self._hosts.look(now) and self._hosts.stale:
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
        self._tell_shortage(name, chain[-1], now)
        exchange = self._exchanges.get(name)
        if exchange is not None and exchange.spot is not None:
            self._finish_fall_back(name, exchange, chain)
        elif exchange is not None:
            self._go_on(name, exchange, stuck, load, now)
        elif stuck & {group.name for group in chain}:
            self._fall_back(name, chain, stuck, now)
        elif load is not None and now >= self._again(name):
            first = begin(self._hosts.workers(name), self._closed(now), load.joined)
            if first is not None:
                self._begin(name, first)

    def _fall_back(
        self, name: str, chain: tuple[Group, ...], stuck: frozenset[str], now: float
    ) -> None:
        lowered, raised = self._moved_on(chain, stuck)
        if not raised:
            return
        ((spot, number),) = lowered.items()
        count = chain[0].desired - number
        self._put_off(name)
        self._exchanges.begin(name, Exchange(_asked(chain), count, number))
        # Meanwhile instances may have come: AWS would end any of those that are there.
        self._hosts.look_at_once(time.monotonic())
        if self._moved_on(self._hosts.seen.get(name, ()), stuck) != (lowered, raised):
            self._end(name)
            return
        # Lower first: an interruption in between leaves too few hosts for a moment, not too many.
        self._hosts.set_desired(lowered)
        self._tell(
            name,
            f"{_hosts(count, 'moves', 'move')} from {spot} to {', '.join(raised)}: "
            f"{self._why(spot, now)}. {self._again_text()}",
        )
        self._hosts.set_desired(raised)
        self._end(name)

    def _moved_on(
        self, chain: Iterable[Group], stuck: frozenset[str]
    ) -> tuple[dict[str, int], dict[str, int]]:
        return moved_on([one for one in chain if one.name not in self._hosts.given_up], stuck)

    def _finish_fall_back(self, name: str, exchange: Exchange, chain: tuple[Group, ...]) -> None:
        """Do what is left of a move on demand that a call's failure, or the end of an earlier host
        program, has cut short.
        """
        if raised := still_owed(exchange, chain):
            self._hosts.set_desired(raised)
            self._tell(
                name, f"{_hosts(exchange.count)} of {chain[0].name} moved to {', '.join(raised)}"
            )
        self._end(name)

    def _begin(self, name: str, first: Begin) -> None:
        self._exchanges.begin(name, first.exchange)
        self._retire_again.pop(name, None)
        self._hosts.set_desired({first.spot: first.number})
        count = first.exchange.count
        self._tell(
            name,
            f"{_hosts(count)} on demand may go back to spot: as many instances are asked for in "
            f"{first.spot}; when they have joined, as many on demand leave",
        )

    def _go_on(
        self,
        name: str,
        exchange: Exchange,
        stuck: frozenset[str],
        load: Load | None,
        now: float,
    ) -> None:
        step = go_on(exchange, self._hosts.workers(name), stuck, load)
        if isinstance(step, Cut):
            self._put_off(name)
            self._hosts.set_desired({step.spot: step.number})
            self._tell(
                name,
                f"{_hosts(step.count, 'stays', 'stay')} on demand: {self._why(step.spot, now)}. "
                f"{self._again_text()}",
            )
        elif isinstance(step, Retire):
            if now >= self._retire_again.get(name, now):
                self._retire_again[name] = now + _RETIRED_AGAIN_SECONDS
                self._hosts.retire(step.instance_ids, drain=True)
                self._tell(
                    name,
                    f"spot instances have joined: {_hosts(len(step.instance_ids))} on demand may "
                    "finish what runs there, move results, and leave",
                )
        elif step is not None:
            if not step.done:
                self._put_off(name)
                self._tell(name, "its number was changed while hosts went back to spot: it holds")
            self._end(name)

    def _tell_shortage(self, name: str, last: Group, now: float) -> None:
        problems = self._memory.problems(last.name, now) if lacking(last) else ()
        if not problems:
            if not lacking(last):
                self._told_short.pop(name, None)
        elif self._told_short.get(name) != problems[0].code:
            self._told_short[name] = problems[0].code
            self._tell(
                name,
                f"{_hosts(lacking(last), 'is', 'are')} missing on every market: "
                f"{self._why(last.name, now)}. AWS keeps trying in {last.name}",
            )

    # ---- what is known ---------------------------------------------------------------------------

    def _read_failures(self, now: float) -> None:
        """Read why a group lacks instances: of those, the one that was read longest ago."""
        if not (self._pending.names and self._may_read):
            return
        name = self._pending.next_to_ask()
        try:
            failures = self._failures(name)
        except Exception as error:  # noqa: BLE001 - without reasons, groups have their time
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
        return now >= self._again(name) and may_begin(seen, self._closed(now))

    def _again(self, name: str) -> float:
        return self._spot_again.get(name, self._first_again)

    def _put_off(self, name: str) -> None:
        self._spot_again[name] = time.monotonic() + self._timing.spot_again_seconds

    def _again_text(self) -> str:
        return f"Spot is tried again in {duration(self._timing.spot_again_seconds)}"

    def _why(self, group: str, now: float) -> str:
        problems = self._memory.problems(group, now)
        if not problems:
            return f"{group} got no instance for {duration(self._fallback_seconds)}"
        return f"AWS has none in {group}: {str(problems[0])[:_TOLD_CHARACTERS].rstrip(' .')}"

    def _end(self, name: str) -> None:
        # In a program that is being closed, the last number may not have been sent: the next one
        # looks.
        if not self._hosts.closing.is_set():
            self._exchanges.end(name)


def _asked(chain: Iterable[Group]) -> int:
    return sum(group.desired for group in chain)


def _hosts(count: int, one: str = "", several: str = "") -> str:
    """Return so many hosts, with the verb of one or of several."""
    return (f"1 host {one}" if count == 1 else f"{count} hosts {several or one}").rstrip()
