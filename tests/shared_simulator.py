"""One embedded AWS for all tests of a process that don't need one of their own: its network takes
longer to deploy than most of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from terradask import Workspace
from terradask._aws.listing import listed_groups
from terradask_modules.caller_policies import CALLERS, CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from .left_clusters import SHARED
from .quick_provider import QuickProvider


@pytest.fixture(scope="session")
def policies() -> dict[str, list[dict[str, Any]]]:
    """The generated policies of every kind of caller, of the workspace that `sim` has."""
    place = PolicyScope(
        where=Where(
            partition="aws", region="us-east-1", account="123456789012", workspace="default"
        )
    )
    scope = CallerScope(hosts=place, session_manager=True)
    return {caller: list(caller_policies(scope, caller).values()) for caller in CALLERS}


class QuickSimulator(Simulator):
    """An embedded AWS whose users' Terraform gets the provider in a quick package."""

    provider: QuickProvider

    @property
    def overlay(self) -> dict[str, str | None]:
        """Variables that are set, and with None those that are removed."""
        return {
            **super().overlay,
            **self.provider.environ,
            "TERRADASK_NETWORK__SESSION_MANAGER": "true",
            # The dashboard's pages take a scheduler as long to import as all the rest: the tests
            # that open them ask for them.
            "TERRADASK_CLUSTER__SCHEDULER_OPTIONS": '{"dashboard": false}',
            # So does a report, before each end.
            "TERRADASK_CLUSTER__PERFORMANCE_REPORT": "off",
        }


@pytest.fixture(scope="session")
def sim(
    policies: dict[str, list[dict[str, Any]]],
    quick_provider: QuickProvider,
    pytestconfig: pytest.Config,
) -> Iterator[Simulator]:
    """One embedded AWS, shared by the whole session, with the network deployed by somebody who
    holds the generated policy alone.

    IAM is evaluated: hosts live on their roles. Tests may do everything, unless they act as
    somebody.
    """
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        with simulator.acting_as("setup", *policies["setup"]):
            # Two zones are enough, and locked by this: fewer resources make every plan of the
            # network quicker.
            workspace = Workspace.load(network={"zones": ["us-east-1a", "us-east-1b"]})
            workspace.apply(workspace.plan_network())
        pytestconfig.stash[SHARED] = simulator
        yield simulator
        del pytestconfig.stash[SHARED]
        # A test that leaves a cluster breaks one that comes after it in the same process.
        left = list(listed_groups(simulator.client("autoscaling")))
        assert [group["AutoScalingGroupName"] for group in left] == []


@pytest.fixture(scope="module")
def sim_environ(sim: Simulator) -> Iterator[dict[str, str]]:
    """This process's own environment, which makes everything in it use `sim` for the length of a
    module.
    """
    with sim.applied():
        yield sim.environ


@pytest.fixture
def bare_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS with nothing on it."""
    with QuickSimulator.start() as simulator:
        simulator.provider = quick_provider
        yield simulator
