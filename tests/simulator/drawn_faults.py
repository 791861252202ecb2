"""Faults of AWS and deaths of hosts, drawn: with a client and without one."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Collection
from dataclasses import dataclass, field

from terradask_simulator import Simulator
from terradask_simulator.errors import SimulatorError
from terradask_simulator.simulator import HostInfo
from terradask_simulator.switches import Switched


@dataclass
class DrawnFaults:
    """What happens to one cluster.

    Parameters
    ----------
    simulator, cluster
        Where the cluster is, and its name.
    draws
        What everything is drawn from.
    lost
        The hosts that were killed.
    """

    simulator: Simulator
    cluster: str
    draws: random.Random
    lost: set[str] = field(default_factory=set)

    def hide(self) -> Switched:
        """Hide what is launched, until the block ends."""
        seconds = self.draws.uniform(0.5, 4.0)
        return self.simulator.hide_instances(seconds, seed=self.draws.randrange(1000))

    def lose_answers(self) -> Switched:
        """Lose answers of calls, until the block ends."""
        share = self.draws.uniform(0.05, 0.3)
        return self.simulator.drop_answers(share=share, seed=self.draws.randrange(1000))

    def contend(self) -> Switched:
        """Refuse changes of groups, as if others changed them too, until the block ends."""
        share = self.draws.uniform(0.2, 0.6)
        return self.simulator.contend_groups(share, seed=self.draws.randrange(1000))

    def throttle(self) -> Switched:
        """Throttle calls, until the block ends."""
        return self.simulator.throttle(self.draws.uniform(0.05, 0.2))

    def lack(self, most: int) -> Switched:
        """Have capacity for a few hosts alone, until the block ends."""
        return self.simulator.no_capacity(beyond=self.draws.randint(2, most))

    def lack_spot(self, most: int) -> Switched:
        """Have spot capacity for a few hosts or none, until the block ends."""
        return self.simulator.no_capacity(market="spot", beyond=self.draws.randint(0, most // 2))

    def recommend(self) -> None:
        """Let AWS recommend to replace a spot instance, if there is one: its host is drained."""
        with contextlib.suppress(SimulatorError):
            for victim in self._spot_host():
                self.simulator.recommend_rebalance(victim)

    def interrupt(self) -> None:
        """Let AWS take a spot instance back, if there is one, so soon that nothing is drained."""
        for victim in self._spot_host():
            try:
                self.simulator.interrupt_spot(victim, notice_seconds=self.draws.uniform(0.1, 1.0))
            except SimulatorError:
                # It has left meanwhile.
                continue
            self.lost.add(victim)
            while not self._has_ended(victim):
                time.sleep(0.05)

    def _spot_host(self) -> list[str]:
        """Return one spot instance, or none where there is none."""
        found = [host.instance_id for host in self._hosts() if host.group == "workers-spot"]
        return self.draws.sample(sorted(found), min(len(found), 1))

    def kill_some(self, hosts: Collection[str]) -> None:
        """Kill one or two of these hosts."""
        count = min(len(hosts), self.draws.randint(1, 2))
        for victim in self.draws.sample(sorted(hosts), count):
            self.kill_host(victim)

    def kill_host(self, instance_id: str) -> None:
        """Kill a host, unless it has ended."""
        try:
            self.simulator.kill_host(instance_id)
        except SimulatorError:
            # Behind a cut, the cluster still shows who has left meanwhile; whether it was to leave,
            # the invariants tell.
            if not self._has_ended(instance_id):
                raise
            return
        self.lost.add(instance_id)
        while not self._has_ended(instance_id):
            time.sleep(0.05)

    def _has_ended(self, instance_id: str) -> bool:
        return self.simulator.history()["instances"][instance_id]["ended"] is not None

    def workers(self) -> set[str]:
        """Return the workers' instances that AWS runs, whatever it shows."""
        tags = {"terradask:cluster": self.cluster, "terradask:role": "worker"}
        told = self.simulator.history()["instances"]
        return {
            one
            for one, row in told.items()
            if row["ended"] is None
            # Prepared ones are no members.
            and row["joined_group"] is not None
            and tags.items() <= row["tags"].items()
        }

    def scheduler_id(self) -> str:
        """Return the instance of the scheduler's host."""
        (host,) = self.machines("scheduler")
        return host

    def machines(self, role: str) -> list[str]:
        """Return the hosts of a role that have begun to boot."""
        return [host.instance_id for host in self._hosts() if host.role == role]

    def program(self, instance_id: str) -> int:
        """Return the process of a host's program."""
        (pid,) = (host.pid for host in self._hosts() if host.instance_id == instance_id)
        assert pid is not None
        return pid

    def _hosts(self) -> list[HostInfo]:
        return [host for host in self.simulator.hosts() if host.cluster == self.cluster]
