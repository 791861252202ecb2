"""The topic that a network makes for messages of an end: with the rights of the generated policies
alone, encrypted, closed, told by a cluster, and gone with the network.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest

from terradask import Cluster, Workspace
from terradask.errors import ClusterStopped
from terradask_modules.caller_policies import Caller, CallerScope, caller_policies
from terradask_modules.kinds.end_topic import made_topic_arn
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator
from ..waiting import eventually
from .queues import messages_of, subscribed_queue

pytestmark = [pytest.mark.simulator, pytest.mark.life]

PLACE = PolicyScope(
    where=Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
)
TOPIC = made_topic_arn(PLACE.where)
SCOPE = CallerScope(hosts=PLACE, session_manager=True, settings=frozenset({"notify_emails"}))
EMAILS = ("ada@example.com", "bo@example.com")


def policies(caller: Caller, scope: CallerScope = SCOPE) -> list[dict[str, Any]]:
    return list(caller_policies(scope, caller).values())


def workspace(emails: Sequence[str] = EMAILS) -> Workspace:
    return Workspace.load(network={"zones": ["us-east-1a"], "notify_emails": list(emails)})


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        yield simulator


def test_a_networks_own_topic_is_told_and_goes_with_it(strict_sim: Simulator) -> None:
    with contextlib.ExitStack() as clients:
        sns, sqs = (
            clients.enter_context(contextlib.closing(strict_sim.client(name)))
            for name in ("sns", "sqs")
        )

        def subscribers() -> list[str]:
            found = sns.list_subscriptions_by_topic(TopicArn=TOPIC)["Subscriptions"]
            return sorted(one["Endpoint"] for one in found if one["Protocol"] == "email")

        with strict_sim.acting_as("setup", *policies("setup")):
            made = workspace()
            plan = made.plan_network()
            made.apply(plan)
        assert subscribers() == list(EMAILS)
        attributes = sns.get_topic_attributes(TopicArn=TOPIC)["Attributes"]
        assert attributes["KmsMasterKeyId"] == "alias/aws/sns"
        (statement,) = json.loads(attributes["Policy"])["Statement"]
        assert (statement["Effect"], statement["Sid"]) == ("Deny", "TlsOnly")

        # Who plans the network sees no change.
        for caller in ("ongoing", "ci"):
            with strict_sim.acting_as(caller, *policies(caller)):
                assert not workspace().plan_network().changed
        with strict_sim.acting_as("setup", *policies("setup")):
            made = workspace(EMAILS[:1])
            made.apply(made.plan_network())
        assert subscribers() == [EMAILS[0]]

        queue = subscribed_queue(sns, sqs, TOPIC, {"cluster": ["etl"]}, "own")
        with strict_sim.applied():
            cluster = Cluster("etl", n_workers=0, idle_timeout="15s", shutdown_on_close=False)
            with cluster, pytest.raises(ClusterStopped, match="has ended by itself"):
                eventually(lambda: cluster.scale(0))
            (told,) = eventually(lambda: messages_of(sqs, queue))
            assert (told["event"], told["cluster"]) == ("cluster-ended", "etl")
            eventually(lambda: not strict_sim.hosts())
            Workspace.load().destroy_cluster("etl")
        with strict_sim.acting_as("setup", *policies("setup")):
            workspace(EMAILS[:1]).destroy_network()
        assert sns.list_topics()["Topics"] == []


def test_without_the_setting_callers_have_no_right_on_topics() -> None:
    for caller in ("setup", "ongoing", "ci", "user"):
        assert "sns:" not in json.dumps(policies(caller, replace(SCOPE, settings=frozenset())))
