"""The scheduler's host and groups of workers at an AWS that does as it is told."""

from __future__ import annotations

import datetime
import threading
from typing import Any

from terradask_host.agent.kept_by_group import KeptByGroup
from terradask_host.agent.markets import Markets
from terradask_host.agent.scaling import Scaler
from terradask_host.agent.shared_limits import SharedLimits
from terradask_host.agent.worker_hosts import WorkerHosts
from terradask_host.rules.autoscaling_groups import Group, Member
from terradask_host.rules.launch_problem import LaunchProblem
from terradask_host.structure import GroupEntry, Structure
from terradask_host.timing import Timing

from ..waiting import eventually

GIB = 2**30


def entry(name, market, group="workers", **more):
    return GroupEntry(
        autoscaling_group=name, role="worker", max_size=9, market=market, worker_group=group, **more
    )


STRUCTURE = Structure(
    groups={
        "workers-spot": entry("etl-workers-spot", "spot"),
        "workers": entry("etl-workers", "on-demand"),
        "gpu": entry("etl-gpu", "on-demand", "gpu", resources={"GPU": 1}),
    }
)
START = datetime.datetime(2026, 11, 20, tzinfo=datetime.UTC)
#: Looks at no market by itself.
QUIET = Timing(market_poll_seconds=1000, launch_poll_seconds=1000)

CHAINS = {"workers": ("workers-spot", "workers"), "gpu": ("gpu",)}


class Groups:
    """AWS with groups whose launches arrive at once, unless they are held back."""

    def __init__(self):
        self.serial = 0
        self.members = {"workers-spot": ["i-1"], "workers": [], "gpu": []}
        self.desired = {"workers-spot": 1, "workers": 0, "gpu": 0}
        self.calls: list[Any] = []
        self.holds = False
        self.max_size = 9
        #: How many instances there are to have.
        self.has = {"workers-spot": 99, "workers": 99, "gpu": 99}
        self.problem: LaunchProblem | None = None
        self.fails: Exception | None = None
        #: The workspace's groups, as AWS describes them for its limits.
        self.described: list[Any] = []
        self.may_go = threading.Event()
        self.may_go.set()

    def worker_chains(self):
        self.calls.append("look")
        if self.fails is not None:
            raise self.fails
        return {
            name: tuple(
                Group(
                    key,
                    self.desired[key],
                    self.max_size,
                    tuple(Member(one, "InService") for one in self.members[key]),
                )
                for key in keys
            )
            for name, keys in CHAINS.items()
        }

    def have(self, *members, desired=None):
        """Let the group on spot have these, and launch nothing by itself."""
        self.holds, self.members["workers-spot"] = True, list(members)
        self.desired["workers-spot"] = len(members) if desired is None else desired

    def set_desired(self, group, n):
        self.may_go.wait(30)
        self.calls.append((group, n))
        self.desired[group] = n
        self.launch()

    def launch(self):
        for group, members in self.members.items():
            while not self.holds and len(members) < min(self.desired[group], self.has[group]):
                self.serial += 1
                members.append(f"i-{group}-{self.serial}")

    def come(self, group, n):
        """Let a group have so many instances."""
        self.has[group] = n
        self.launch()

    def end(self, instance_id, *, replaced):
        self.calls.append(("end", instance_id, replaced))
        for key, members in self.members.items():
            if instance_id in members:
                members.remove(instance_id)
                self.desired[key] -= not replaced
        self.launch()

    def failures(self, group):
        self.calls.append(("why", group))
        short = len(self.members[group]) < self.desired[group]
        return (
            [(datetime.datetime.now(datetime.UTC), self.problem)] if short and self.problem else []
        )

    @property
    def changes(self):
        return [each for each in self.calls if each != "look"]


def shared_limits(limits=None, described=list, send=print, report=print):
    """Return the workspace's limits for cluster ``etl`` of Ada: by default none."""
    return SharedLimits(
        lambda: limits and limits(),
        described,
        cluster="etl",
        owner="arn:aws:iam::123456789012:user/ada",
        age_seconds=0.0,
        send=send,
        log=print,
        report=report,
    )


class Stand:
    """A scaler with its groups; what it sends, keeps and tells."""

    def __init__(
        self, policies, groups=None, *, timing=QUIET, exchanges=None, numbers=None, limits=None
    ):
        self.groups = groups or Groups()
        self.exchanges: list[Any] = []
        self.sent: list[Any] = []
        self.kept: list[Any] = []
        self.numbers: list[dict[str, int]] = []
        self.told: list[str] = []
        self.refuses: Exception | None = None
        self.hosts = WorkerHosts(self.groups, send=self.send, log=self.told.append)
        self.markets = Markets(
            self.hosts,
            self.groups.failures,
            timing,
            fallback_seconds=1000,
            since=START,
            exchanges=KeptByGroup(
                "exchanges", exchanges or {}, self.keep_exchanges, self.told.append
            ),
            send=self.send,
            report=self.tell,
            log=self.told.append,
        )
        self.scaler = Scaler(
            self.hosts,
            STRUCTURE,
            policies,
            self.markets,
            limits=shared_limits(limits, lambda: self.groups.described, self.send, self.tell),
            numbers=KeptByGroup(
                "numbers of hosts", numbers or {}, self.keep_numbers, self.told.append
            ),
            keep=self.keep,
            send=self.send,
            log=self.told.append,
            report=self.tell,
        )

    def send(self, word):
        self.sent.append(word)

    def tell(self, group, text):
        self.told.append(f"{group}: {text}")

    def keep_exchanges(self, exchanges):
        self.exchanges.append(dict(exchanges))

    def keep(self, policies):
        if self.refuses is not None:
            raise self.refuses
        self.kept.append(dict(policies))

    def keep_numbers(self, numbers):
        if self.refuses is not None:
            raise self.refuses
        self.numbers.append(dict(numbers))

    def load(self, *hosts, idle=0, waiting=0, **resources):
        """Send a load, and wait until it is taken."""
        rows = [
            [host, 1, 0.0 if n < idle else 1.0, 0 if n < idle else 1, 0, GIB]
            for n, host in enumerate(hosts)
        ]
        waits = [[resources, waiting, float(waiting)]] if waiting else []
        self.scaler.take({"hosts": rows, "idle_count": idle, "kept_count": 0, "waiting": waits})
        self.settle()

    def scale(self, numbers, hosts=(), loaded=(), *, idle=99, act=True):
        """Command numbers, and return the answer, or None while workers are retired."""
        rows = [
            [host, 1, 0.0, 0 if n < idle else 1, 0 if n < idle else 8, GIB]
            for n, host in enumerate(loaded)
        ]
        load = {"hosts": rows, "idle_count": 0, "kept_count": 0, "waiting": []}
        number = 500 + len(self.sent)
        self.scaler.scale(number, numbers, hosts, act=act, load=load)
        self.settle()
        return self.answer(number)

    def observed(self, *hosts):
        """Report what the scheduler's process was asked to observe."""
        rows = [[host, 1, 0.0, 0, 0, GIB] for host in hosts]
        load = {"hosts": rows, "idle_count": 0, "kept_count": 0, "waiting": []}
        self.scaler.take({"observed": load})

    @property
    def policies(self):
        """The policies that the scheduler's process was sent last."""
        return [each["policies"] for each in self.sent if each["do"] == "policies"][-1]

    def answer(self, number):
        return next((one for one in self.sent if one.get("number") == number), None)

    def settle(self):
        self.scaler.adapt(number := len(self.sent) + 1000, {})
        eventually(lambda: any(each.get("number") == number for each in self.sent))
        self.sent = [each for each in self.sent if each.get("number") != number]

    def adapt(self, policies):
        self.scaler.adapt(1, policies)
        return eventually(lambda: next((one for one in self.sent if one.get("number") == 1), None))


def stands():
    """Yield what makes stands, and close them: a fixture's function."""
    made: list[Stand] = []

    def make(policies, groups=None, **more):
        made.append(Stand(policies, groups, **more))
        return made[-1]

    yield make
    for each in made:
        each.scaler.close(5)
