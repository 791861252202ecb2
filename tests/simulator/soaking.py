"""A cluster under random scaling, kills and faults, with a client and without one, and with a
steady workload whose answers are checked.
"""

from __future__ import annotations

import contextlib
import logging
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from distributed import Client, Future

from terradask import Cluster, Workspace
from terradask.errors import ClusterError, SchedulerReplaced
from terradask_simulator import Simulator

from ..invariants import Witness
from . import scheduler_events
from .drawn_faults import DrawnFaults
from .soaking_alone import Alone

logger = logging.getLogger("terradask.soak")

#: What hosts wait for, so that a minute of a cluster's life passes in a second or two.
TIMING = {
    "join_seconds": 12.0,
    "join_failures": 1000,
    "join_poll_seconds": 0.5,
    "retired_grace_seconds": 5.0,
    "scheduler_probe_seconds": 1.0,
    "market_poll_seconds": 0.5,
    "launch_poll_seconds": 0.3,
    "launch_failed_seconds": 3.0,
    "spot_again_seconds": 4.0,
}
MOST = 8
SETTLE_SECONDS = 180.0


@dataclass
class Soak:
    """One cluster and what happens to it.

    Parameters
    ----------
    simulator, name
        Where the cluster is, and its name.
    draws
        What everything is drawn from.
    folder
        An empty one, for files of the scheduler and of tasks.
    gentle
        Whether nothing happens that takes long to recover from.
    spot
        Whether workers are on spot, with fallback.
    standby
        Number of hosts on demand that are kept prepared.
    """

    simulator: Simulator
    name: str
    draws: random.Random
    folder: Path
    gentle: bool = False
    spot: bool = False
    standby: int = 0
    cluster: Any = None
    target: int = 2
    witness: Witness = field(default_factory=Witness)
    checked: int = 0
    said: list[str] = field(default_factory=list)
    client: Any = None
    work: list[tuple[list[int], list[Future]]] = field(default_factory=list)
    attached_seconds: float = 0.0
    alone_seconds: float = 0.0

    def __post_init__(self) -> None:
        self.faults = DrawnFaults(self.simulator, self.name, self.draws)
        self.events = self.folder / "events"

    def __enter__(self) -> Self:
        self.cluster = Cluster(
            self.name,
            n_workers=self.target,
            max_workers=MOST,
            standby=self.standby,
            spot_policy="spot_with_fallback" if self.spot else "on-demand",
            wait_for_workers=True,
            shutdown_on_close=False,
            idle_timeout=False,
            scheduler_options={"dashboard": False, **scheduler_events.options(self.events)},
        )
        self.client = Client(self.cluster, set_as_default=False)
        return self

    def prepared(self) -> list[str]:
        """Return the states of prepared hosts at AWS."""
        found = self.simulator.client("autoscaling").describe_warm_pool(
            AutoScalingGroupName=f"terradask-default-{self.name}-workers"
        )
        return [one["LifecycleState"] for one in found["Instances"]]

    def __exit__(self, *_: object) -> None:
        self._leave()
        self.cluster.close()
        Workspace.load().destroy_cluster(self.name)

    def live(self, steps: int) -> None:
        """Let so many steps happen with a client."""
        started = time.monotonic()
        for _ in range(steps):
            self.step()
        self.attached_seconds += time.monotonic() - started

    def live_alone(self, steps: int) -> None:
        """Let so many steps happen without a client; then attach again, and check what was left."""
        self._leave()
        self.cluster.close()
        alone = Alone(
            self.faults,
            MOST,
            self.folder / f"alone-{len(self.said)}",
            self.events,
            self.witness,
            gentle=self.gentle,
            spot=self.spot,
        )
        alone.live(steps)
        self.alone_seconds += alone.seconds
        self.said += alone.said
        self._attach()
        assert self.cluster.adapting["workers"].maximum == MOST
        self.checked += alone.check(self.client)
        # Ends its adapting.
        self.scale()
        self.settle()
        self.hear()

    def step(self) -> None:
        """Let something happen, then let the cluster recover, and check what it was asked."""
        events = {
            self.scale: 4,
            self.scale_twice: 2,
            self.kill: 3,
            self.adapt: 1,
            self.hide: 2,
            self.lose_answers: 2,
            self.contend: 2,
            self.throttle: 1,
            self.lack: 1,
            self.cut: 2,
            self.sleep: 1,
            **({self.lack_spot: 2, self.recommend: 1, self.interrupt: 1} if self.spot else {}),
            **({} if self.gentle else {self.break_environments: 1, self.kill_scheduler: 1}),
        }
        (event,) = self.draws.choices(list(events), list(events.values()))

        # By value: hosts have no tests.
        def answer(number: int) -> int:
            time.sleep(0.02)
            return number * number + 1

        numbers = [self.draws.randrange(10**6) for _ in range(20)]
        started = time.monotonic()
        self.work.append((numbers, self.client.map(answer, numbers, pure=False)))
        event()
        self.settle()
        self.check()
        self.said.append(f"{event.__name__} -> {self.target} in {time.monotonic() - started:.1f} s")
        print(f"step {len(self.said)} until {time.time():.1f}: {self.said[-1]}", flush=True)

    def settle(self) -> None:
        """Wait until the cluster is as it is to be."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not self._is_settled():
            if time.monotonic() > deadline:
                self.tell(time.time() - SETTLE_SECONDS - 10)
                raise AssertionError(
                    f"not {self.target} workers: {self._look()}; so far: {self.said}"
                )
            time.sleep(0.1)

    def check(self) -> None:
        """Compare answers with what they must be."""
        self.hear()
        if not self.target:
            return
        for numbers, futures in self.work:
            assert self.client.gather(futures) == [number * number + 1 for number in numbers]
            self.checked += len(numbers)
        self.work.clear()

    def hear(self) -> None:
        self.witness.record(scheduler_events.read(self.events))

    # ---- what happens ----------------------------------------------------------------------------

    def scale(self) -> None:
        self.target = self.draws.randint(0, MOST)
        self.cluster.scale(self.target)

    def scale_twice(self) -> None:
        for _ in range(2):
            self.scale()
            time.sleep(self.draws.uniform(0.0, 0.5))

    def kill(self) -> None:
        self.faults.kill_some(self.cluster.observed)

    def adapt(self) -> None:
        self.cluster.adapt(
            minimum=1, maximum=MOST, interval="100ms", wait_count=2, target_duration="500ms"
        )
        time.sleep(self.draws.uniform(0.5, 2.0))
        # Ends it.
        self.scale()

    def hide(self) -> None:
        with self.faults.hide():
            self.scale()
            time.sleep(self.draws.uniform(0.0, 2.0))
            self.scale()
            time.sleep(self.draws.uniform(0.0, 2.0))

    def lose_answers(self) -> None:
        with self.faults.lose_answers():
            self.scale_twice()
            time.sleep(1.0)

    def contend(self) -> None:
        with self.faults.contend():
            self.scale_twice()
            time.sleep(1.0)

    def throttle(self) -> None:
        with self.faults.throttle():
            self.scale_twice()
            time.sleep(1.0)

    def lack(self) -> None:
        with self.faults.lack(MOST):
            self.scale()
            time.sleep(self.draws.uniform(0.5, 2.0))

    def lack_spot(self) -> None:
        with self.faults.lack_spot(MOST):
            self.scale()
            time.sleep(self.draws.uniform(0.5, 4.0))

    def recommend(self) -> None:
        self.faults.recommend()

    def interrupt(self) -> None:
        self.faults.interrupt()

    def cut(self) -> None:
        with self.simulator.cut_network(self.faults.scheduler_id(), seconds=60):
            time.sleep(self.draws.uniform(0.2, 3.0))
            with contextlib.suppress(ClusterError, OSError):
                self.kill()
        self.renew_client()

    def sleep(self) -> None:
        """Let this client sleep like a laptop, while hosts die: nothing of it runs."""
        seconds = self.draws.uniform(0.5, 3.0)
        self.cluster.loop.add_callback(time.sleep, seconds)
        self.kill()
        time.sleep(seconds)

    def break_environments(self) -> None:
        with self.simulator.break_environments():
            self.target = MOST
            self.cluster.scale(self.target)
            time.sleep(1.5)

    def kill_scheduler(self) -> None:
        self.faults.kill_host(self.faults.scheduler_id())
        self.hear()
        self.witness.lose_all(time.time())
        deadline = time.monotonic() + SETTLE_SECONDS
        while time.monotonic() < deadline:
            try:
                self.cluster.scale(self.target)
            except SchedulerReplaced:
                break
            except ClusterError as error:
                logger.info("%s", error)
            time.sleep(0.2)
        else:
            raise AssertionError(f"nobody said that the scheduler is gone: {self._look()}")
        self.attach_again()

    def attach_again(self) -> None:
        """Attach to the replacement of a scheduler that is gone."""
        self._leave()
        self.cluster.close()
        self._attach()

    def _attach(self) -> None:
        self.cluster = Cluster.from_name(self.name)
        self.client = Client(self.cluster, set_as_default=False)

    # ---- looks -----------------------------------------------------------------------------------

    def renew_client(self) -> None:
        """Have a client again, after a cut that may have taken the old one's work along."""
        self._leave()
        self.client = Client(self.cluster, set_as_default=False)

    def _leave(self) -> None:
        # Only the client that asked for it can read it.
        self.work.clear()
        # A client whose connections broke may not even close in order, and would say so when it is
        # collected.
        with contextlib.suppress(Exception):
            self.client.close(timeout=1)
        self.client.status = "closed"

    def _is_settled(self) -> bool:
        cluster = self.cluster
        # Read once: between two looks, the plan may become another.
        plan = cluster.plan
        return (
            len(plan) == self.target
            and plan == cluster.requested == cluster.observed
            and plan == self.faults.workers()
        )

    def tell(self, since: float) -> None:
        """Print what has happened at AWS since some time, for whoever has to find out why."""
        for row in self.simulator.history()["groups"]:
            if row["seconds"] >= since:
                print(
                    f"{row['seconds']:.2f} {row['group']} wants {row['desired']}, has "
                    f"{', '.join(row['instances']) or 'none'}"
                )
        for role, calls in self.simulator.calls("role").items():
            print(f"{role or 'clients'}: {calls}")
        print(
            *(event for event in self.cluster.events() if event.at.timestamp() >= since), sep="\n"
        )

    def _look(self) -> str:
        cluster = self.cluster
        look = {
            "plan": cluster.plan,
            "requested": cluster.requested,
            "observed": cluster.observed,
            "at AWS": self.faults.workers(),
        }
        told = "; ".join(f"{name}: {', '.join(sorted(found))}" for name, found in look.items())
        return f"{told}; trouble: {self._trouble()}"

    def _trouble(self) -> ClusterError | None:
        try:
            # Changes nothing.
            self.cluster.scale_up(0)
        except ClusterError as error:
            return error
        return None
