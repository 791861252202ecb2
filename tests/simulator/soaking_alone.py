"""A cluster to which nothing is attached, under random kills and faults: it grows and shrinks with
waves of tasks and a job that a client left behind when it was killed.
"""

from __future__ import annotations

import os
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from distributed import wait

from terradask import Workspace

from ..invariants import Witness
from ..waiting import HANG_SECONDS, eventually
from . import scheduler_events
from .drawn_faults import DrawnFaults
from .left_alone import WAVE_TASKS, leave_waves
from .left_jobs import LeftJobs, line

#: To which it shrinks when its work is done.
LEAST = 1

SETTLE_SECONDS = 180.0

#: A number that stays for so long is settled.
_CALM_SECONDS = 1.0


class Alone:
    """What happens to a cluster from the end of its last client to the next one.

    Each step lets one wave of tasks begin, by a file that the wave waits for. What a task returns
    is its number, the number's square and a token of this run of it; it writes number and token to
    a file's name, too.

    Parameters
    ----------
    faults
        What may happen, and to which cluster.
    most
        To how many hosts it may grow.
    folder
        Where tasks wait for files, and write some.
    events
        The file of `scheduler_events`.
    witness
        Hears what schedulers say of their workers.
    gentle
        Whether nothing happens that takes long to recover from.
    spot
        Whether workers are on spot, with fallback.
    """

    def __init__(
        self,
        faults: DrawnFaults,
        most: int,
        folder: Path,
        events: Path,
        witness: Witness,
        *,
        gentle: bool,
        spot: bool,
    ) -> None:
        self._faults, self._most, self._folder = faults, most, folder
        self._events, self._witness = events, witness
        self._gentle, self._spot = gentle, spot
        #: The first wave that the scheduler has, and the next one that is to begin.
        self._first = self._next = 0
        self.seconds = 0.0
        self.said: list[str] = []
        folder.mkdir()
        self._jobs = LeftJobs(faults.cluster, folder / "jobs")

    def live(self, steps: int) -> None:
        """Let a client come, leave work for so many steps and be killed; let the steps happen."""
        self._leave(steps)
        for left in reversed(range(steps)):
            self._step(left)
        self.seconds += time.time() - self._since
        self._check_that_no_client_came()

    def _leave(self, waves: int) -> None:
        self._first = self._next
        job = leave_waves(
            self._faults.cluster,
            self._folder,
            line(self._folder / "jobs"),
            self._most,
            self._first,
            waves,
        )
        self._jobs.add(job)
        self._since = time.time()

    def _step(self, left: int) -> None:
        events: dict[Callable[[], None], int] = {
            self.begin_wave: 4,
            self.kill: 3,
            self.hide: 2,
            self.lose_answers: 2,
            self.contend: 2,
            self.throttle: 1,
            self.lack: 1,
        }
        if self._spot:
            events |= {self.lack_spot: 2, self.recommend: 1, self.interrupt: 2}
        ends = {
            self.kill_scheduler: 1,
            self.kill_scheduler_process: 1,
            self.kill_scheduler_program: 1,
        }
        if not self._gentle:
            events |= {self.break_environments: 1, **ends}
        (event,) = self._faults.draws.choices(list(events), list(events.values()))
        started, begun = time.monotonic(), time.time()
        event()
        if event in ends:
            # Its tasks are gone with it: another client brings new ones, and is killed as well.
            self._check_that_no_client_came()
            self.seconds += time.time() - self._since
            begun = time.time()
            self._leave(left + 1)
            self.begin_wave()
        self._settle()
        # While AWS answers late, or hides the host that works, all may be done before it grows.
        if event not in (self.contend, self.throttle, self.lose_answers, self.hide):
            assert max(self._numbers(begun)) > LEAST, (
                f"it didn't grow: {event.__name__}; so far: {self.said}"
            )
        if event not in (self.kill, self.interrupt):
            self._check_that_each_ran_once()
        self.said.append(f"alone: {event.__name__} in {time.monotonic() - started:.1f} s")
        print(f"step until {time.time():.1f}: {self.said[-1]}", flush=True)

    def _settle(self) -> None:
        """Wait until the wave is done, for which the cluster has grown, and it has shrunk again."""
        calm_since = None
        deadline = time.monotonic() + SETTLE_SECONDS
        while calm_since is None or time.monotonic() < calm_since + _CALM_SECONDS:
            if not self._is_done():
                calm_since = None
            elif calm_since is None:
                calm_since = time.monotonic()
            assert time.monotonic() < deadline, f"{self._look()}; so far: {self.said}"
            time.sleep(0.1)

    def _is_done(self) -> bool:
        expected = range(self._next * WAVE_TASKS)
        return (
            self._numbers()[-1] == LEAST == len(self._faults.workers())
            and self._runs().keys() >= set(expected)
            and self._jobs.is_over
        )

    def _look(self) -> str:
        missing = set(range(self._next * WAVE_TASKS)) - self._runs().keys()
        return (
            f"{len(missing)} tasks of {self._next} waves are missing; wanted: "
            f"{self._numbers()[-1]}, at AWS: {', '.join(sorted(self._faults.workers()))}"
        )

    # ---- what happens ----------------------------------------------------------------------------

    def begin_wave(self) -> None:
        (self._folder / f"begin-{self._next}").touch()
        self._next += 1

    def kill(self) -> None:
        self.begin_wave()
        time.sleep(self._faults.draws.uniform(0.0, 3.0))
        self._faults.kill_some(self._faults.machines("worker"))

    def hide(self) -> None:
        with self._faults.hide():
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(0.0, 4.0))

    def lose_answers(self) -> None:
        with self._faults.lose_answers():
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(1.0, 4.0))

    def contend(self) -> None:
        with self._faults.contend():
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(1.0, 4.0))

    def throttle(self) -> None:
        with self._faults.throttle():
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(1.0, 4.0))

    def lack(self) -> None:
        with self._faults.lack(self._most):
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(0.5, 3.0))

    def lack_spot(self) -> None:
        with self._faults.lack_spot(self._most):
            self.begin_wave()
            time.sleep(self._faults.draws.uniform(0.5, 5.0))

    def recommend(self) -> None:
        self.begin_wave()
        time.sleep(self._faults.draws.uniform(0.0, 3.0))
        self._faults.recommend()

    def interrupt(self) -> None:
        self.begin_wave()
        time.sleep(self._faults.draws.uniform(0.0, 3.0))
        self._faults.interrupt()

    def break_environments(self) -> None:
        with self._faults.simulator.break_environments():
            self.begin_wave()
            time.sleep(1.5)

    def kill_scheduler(self) -> None:
        self._end_scheduler(lambda: self._faults.kill_host(self._faults.scheduler_id()))

    def kill_scheduler_process(self) -> None:
        process = self._scheduler_processes()[-1]
        self._end_scheduler(lambda: os.kill(process, signal.SIGKILL))

    def kill_scheduler_program(self) -> None:
        program = self._faults.program(self._faults.scheduler_id())
        self._end_scheduler(lambda: os.kill(program, signal.SIGKILL))

    def _end_scheduler(self, end: Callable[[], None]) -> None:
        before = self._scheduler_processes()
        end()
        at = time.time()
        eventually(lambda: len(self._scheduler_processes()) > len(before))
        self._witness.record(scheduler_events.read(self._events))
        self._witness.lose_all(at)
        self._jobs.cut()
        deployment = Workspace.load().deployment(self._faults.cluster)
        eventually(lambda: deployment.status().state == "running")

    def _scheduler_processes(self) -> list[int]:
        return [
            event["pid"]
            for _, event in scheduler_events.read(self._events)
            if event["action"] == scheduler_events.BEGINS
        ]

    # ---- looks -----------------------------------------------------------------------------------

    def _numbers(self, since: float = 0.0) -> list[int]:
        """Return how many hosts there were to be, on both markets, since some time; the last number
        is the present one.
        """
        asked: dict[str, int] = {}
        numbers = [(0.0, 0)]
        for row in self._faults.simulator.history()["groups"]:
            if row["group"].startswith(f"terradask-default-{self._faults.cluster}-workers"):
                asked[row["group"]] = row["desired"]
                numbers.append((row["seconds"], sum(asked.values())))
        return [number for at, number in numbers if at >= since] or [numbers[-1][1]]

    def _runs(self) -> dict[int, set[str]]:
        """Return the tokens of all runs of each task."""
        found = defaultdict(set)
        for path in self._folder.glob("*.*"):
            number, _, token = path.name.partition(".")
            found[int(number)].add(token)
        return found

    def _check_that_each_ran_once(self) -> None:
        """The newest wave lost no host, so no task of it ran twice, however often it shrank."""
        runs = self._runs()
        newest = range((self._next - 1) * WAVE_TASKS, self._next * WAVE_TASKS)
        twice = [number for number in newest if len(runs[number]) != 1]
        assert twice == [], f"ran twice; so far: {self.said}"

    def _check_that_no_client_came(self) -> None:
        came = [
            (at, event)
            for at, event in scheduler_events.read(self._events)
            if at >= self._since and event["action"] == "add-client"
        ]
        assert came == [], f"a client came; so far: {self.said}"

    def check(self, client: Any) -> int:
        """Compare results with what they must be; return how many tasks there were."""
        runs = self._runs()
        # Futures of a dataset are the current client's.
        with client.as_current():
            for wave in range(self._first, self._next):
                futures = client.get_dataset(f"wave-{wave}")
                wait(futures, HANG_SECONDS)
                for place, (number, square, token) in enumerate(client.gather(futures)):
                    assert number == wave * WAVE_TASKS + 2 * place
                    assert square == number * number
                    assert token in runs[number]
                client.unpublish_dataset(f"wave-{wave}")
        # Also of the tasks of fire_and_forget, and of schedulers that are gone.
        assert runs.keys() == set(range(self._next * WAVE_TASKS))
        return len(runs) + self._jobs.check()
