"""What must hold after every failure: read from the embedded AWS's own records, and from what
the scheduler said of its workers.

Each function returns what is against it, one readable line each; an empty list is what is wanted.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .left_over import leftovers

if TYPE_CHECKING:
    from terradask_simulator.simulator import Simulator

__all__ = [
    "Witness",
    "born_without_tags",
    "left_behind",
    "outlived",
    "over_scaled",
    "removed_unretired",
    "state_in_disorder",
    "unjoined",
]

_MOMENT_SECONDS = 1.0

#: Every host's instance carries these from its birth on.
CLUSTER_TAGS = ("terradask:workspace", "terradask:cluster", "terradask:role")
RUN_TAGS = (
    "terradask:run:id",
    "terradask:run:owner",
    "terradask:run:python",
    "terradask:run:started",
)


@dataclass
class Witness:
    """What schedulers have said of their workers, by address, in seconds since the epoch.

    Parameters
    ----------
    joined
        When each joined for the first time.
    came, went
        When each joined, and left or was lost, for the last time.
    retired
        The workers that the scheduler had to retire. What they held was moved, unless no
        worker was left to take it.
    """

    joined: dict[str, float] = field(default_factory=dict)
    came: dict[str, float] = field(default_factory=dict)
    went: dict[str, float] = field(default_factory=dict)
    retired: set[str] = field(default_factory=set)

    def record(self, events: Iterable[tuple[float, Any]]) -> None:
        """Take note of a scheduler's log of events, ``client.get_events("all")``; the same events
        twice change nothing.
        """
        for at, event in events:
            match event:
                case {"action": "add-worker", "worker": address}:
                    self.joined.setdefault(_host(address), at)
                    self.came[_host(address)] = max(at, self.came.get(_host(address), 0.0))
                case {"action": "remove-worker", "worker": address}:
                    self.went[_host(address)] = max(at, self.went.get(_host(address), 0.0))
                case {"action": "retire-workers", "retired": moved, "could-not-retire": kept}:
                    self.retired |= {_host(address) for address in (*moved, *kept)}

    def lose_all(self, at: float) -> None:
        """Take note of a scheduler that is gone, and can't say which workers have left it."""
        for host, came in self.came.items():
            if self.went.get(host, 0.0) < came <= at:
                self.went[host] = at

    def describe(self, host: str) -> str:
        """Return when a host's workers came and went for the last time."""
        came, went = self.came.get(host), self.went.get(host)
        return f"last came at {came and round(came, 1)}, went at {went and round(went, 1)}"

    def excuses(self, host: str, ended: float) -> bool:
        """Return whether a host that ended need not have been retired: it was not at a scheduler
        any more, or had only just come to one.

        AWS may end a host that boots in place of a launch that has not happened. What joins in that
        moment holds nothing yet.
        """
        came, went = self.came.get(host, 0.0), self.went.get(host, 0.0)
        return came < went < ended - _MOMENT_SECONDS or came > ended - _MOMENT_SECONDS


def left_behind(simulator: Simulator, cluster: str) -> list[str]:
    """I1: of a cluster that was closed nothing is left, by `leftovers`."""
    with simulator.applied():
        return leftovers("default", cluster=cluster)


def over_scaled(simulator: Simulator, cluster: str, *, at_most: int) -> list[str]:
    """I2: no launch takes a group beyond its desired capacity, nor a cluster's workers beyond the
    most that were ever asked for.
    """
    history = simulator.history()
    mine = {one: told for one, told in history["instances"].items() if _is_worker(told, cluster)}
    groups: dict[str, list[str]] = {}
    wrong = []
    for row in history["groups"]:
        before = groups.get(row["group"], [])
        groups[row["group"]] = row["instances"]
        if set(row["instances"]) <= set(before):
            continue
        if len(row["instances"]) > row["desired"]:
            wrong.append(f"{row['group']} launched {len(row['instances'])} of {row['desired']}")
        workers = sum(one in mine for members in groups.values() for one in members)
        if workers > at_most and mine.keys() & set(row["instances"]):
            wrong.append(f"{workers} workers of {at_most} at most, in {row['group']}")
    return wrong


def born_without_tags(simulator: Simulator, cluster: str) -> list[str]:
    """I3: every instance of a cluster names its cluster and its run from its birth on; one that
    was prepared before the first run names none.
    """
    return [
        f"{one} was born without {tag}"
        for one, told in _instances(simulator, cluster)
        for tag in (*CLUSTER_TAGS, *_run_tags(told))
        if not told["tags"].get(tag, "").strip()
    ]


def _run_tags(told: Mapping[str, Any]) -> tuple[str, ...]:
    was_prepared = told["joined_group"] != told["born"]
    return () if was_prepared and not told["tags"].keys() & set(RUN_TAGS) else RUN_TAGS


def outlived(simulator: Simulator, cluster: str, *, seconds: float) -> list[str]:
    """I4: no instance gets older than its cluster may."""
    ages = (
        (one, (told["ended"] or time.time()) - told["born"])
        for one, told in _instances(simulator, cluster)
    )
    return [f"{one} lived for {age:.0f} s" for one, age in ages if age > seconds]


def state_in_disorder(simulator: Simulator, bucket: str, cluster: str) -> list[str]:
    """I5: serials of the cluster's state never go back within a lineage, and no lock on
    it is held.
    """
    key = f"clusters/{cluster}/terraform.tfstate"
    wrong: list[str] = []
    last: dict[str, int] = {}
    with contextlib.closing(simulator.client("s3")) as s3:
        versions = [
            one
            for one in s3.list_object_versions(Bucket=bucket, Prefix=key).get("Versions", ())
            if one["Key"] == key
        ]
        for version in reversed(versions):
            content = s3.get_object(Bucket=bucket, Key=key, VersionId=version["VersionId"])[
                "Body"
            ].read()
            state = json.loads(content)
            if state["serial"] < last.get(state["lineage"], 0):
                wrong.append(f"serial {state['serial']} after {last[state['lineage']]}")
            last[state["lineage"]] = state["serial"]
        held = s3.list_objects_v2(Bucket=bucket, Prefix=f"{key}.tflock").get("Contents", ())
    return wrong + [f"{one['Key']} is held" for one in held]


def removed_unretired(
    simulator: Simulator,
    cluster: str,
    witness: Witness,
    *,
    lost: Collection[str] = (),
    until: float | None = None,
) -> list[str]:
    """I6: a worker at the scheduler ends only when that has retired it first.

    Except instances that the test killed (`lost`), and from the time on when the cluster was being
    stopped (`until`).
    """
    return [
        (
            f"{one} ended at {told['ended']:.1f}, and had not been retired; "
            f"{witness.describe(told['private_address'])}"
        )
        for one, told in _instances(simulator, cluster)
        if _is_worker(told, cluster)
        and told["ended"] is not None
        and (until is None or told["ended"] < until)
        if one not in lost and told["private_address"] in witness.joined.keys() - witness.retired
        if not witness.excuses(told["private_address"], told["ended"])
    ]


def unjoined(
    simulator: Simulator, cluster: str, joined: Mapping[str, float], *, seconds: float
) -> list[str]:
    """I7: no worker's instance is paid for without a worker for longer than a host may take to
    join.
    """
    return [
        f"{one} ran for {waited:.0f} s without a worker"
        for one, told in _instances(simulator, cluster)
        # One in a warm pool is no member yet.
        if _is_worker(told, cluster) and told["joined_group"] is not None
        if (
            waited := min(
                joined.get(told["private_address"], time.time()), told["ended"] or time.time()
            )
            - told["joined_group"]
        )
        > seconds
    ]


def _instances(simulator: Simulator, cluster: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for one, told in simulator.history()["instances"].items():
        if told["tags"].get("terradask:cluster") == cluster:
            yield one, told


def _is_worker(told: Mapping[str, dict[str, str]], cluster: str) -> bool:
    return {"terradask:cluster": cluster, "terradask:role": "worker"}.items() <= told[
        "tags"
    ].items()


def _host(address: str) -> str:
    return address.rpartition("://")[2].rpartition(":")[0]
