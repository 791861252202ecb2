"""How many of terradask's own functions lie between a user's call and the calls of AWS that it
makes in the same thread.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

import pytest
from botocore.client import BaseClient

import terradask
import terradask_host
import terradask_modules
import terradask_stacks
from terradask import Cluster
from terradask.cli import run

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: The most functions on the way to any call of AWS, and to the one that launches hosts.
LIMITS = {"Cluster": 12, "logs": 8, "plan": 11, "close": 13}
UNTIL_HOSTS = 8

_OWN = tuple(
    str(Path(str(package.__file__)).parent)
    for package in (terradask, terradask_host, terradask_modules, terradask_stacks)
)


class Call(NamedTuple):
    """A call of AWS, with terradask's functions that led to it, the nearest first."""

    operation: str
    way: tuple[str, ...]

    @property
    def depth(self) -> int:
        """The functions between the user's call and that of botocore's client."""
        return len(self.way) - 2


def _way(frame: FrameType) -> Iterator[str]:
    for each, _ in traceback.walk_stack(frame):
        code = each.f_code
        # Of a lambda, a comprehension or a class's body the name is in brackets.
        if code.co_filename.startswith(_OWN) and not code.co_name.startswith("<"):
            yield f"{Path(code.co_filename).stem}.{code.co_qualname}"


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    """Every call of AWS that this process makes."""
    found: list[Call] = []
    send: Callable[..., Any] = BaseClient._make_api_call

    def noted(client: BaseClient, operation: str, parameters: Any) -> Any:
        found.append(Call(operation, tuple(_way(sys._getframe(1)))))
        return send(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", noted)
    return found


def deepest(calls: list[Call], operation: str = "") -> Call:
    """Return the call with the longest way, of an operation or of any."""
    return max((one for one in calls if operation in one.operation), key=lambda one: one.depth)


def test_few_functions_lie_between_a_users_call_and_aws(
    sim_environ: dict[str, str], calls: list[Call]
) -> None:
    found: dict[str, list[Call]] = {}

    def note(name: str) -> None:
        found[name] = list(calls)
        calls.clear()

    with Cluster("shallow", n_workers=2, max_workers=4) as cluster:
        note("Cluster")
        assert run(["logs", "shallow"]) == 0
        note("logs")
        assert run(["plan", "shallow"]) == 0
        note("plan")
        cluster.close()
        note("close")
    until_hosts = deepest(found["Cluster"], "SetDesiredCapacity")
    longest = {name: deepest(each) for name, each in found.items()}
    print(until_hosts, *longest.items(), sep="\n")
    assert until_hosts.depth <= UNTIL_HOSTS
    assert {name: one for name, one in longest.items() if one.depth > LIMITS[name]} == {}
