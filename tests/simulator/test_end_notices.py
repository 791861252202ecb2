"""A cluster that ends by itself tells a topic, in a workspace whose hosts live on their roles."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from terradask import Cluster, Workspace
from terradask.errors import ClusterStopped
from terradask_modules.iam import policy_text, statement
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..shared_simulator import QuickSimulator
from ..waiting import eventually
from .queues import messages_of, subscribed_queue

pytestmark = [pytest.mark.simulator, pytest.mark.life]

ACCOUNT = "123456789012"
AUTO_SCALING = (
    f"arn:aws:iam::{ACCOUNT}:role/aws-service-role/autoscaling.amazonaws.com/"
    "AWSServiceRoleForAutoScaling"
)


@pytest.fixture
def strict_sim(quick_provider: QuickProvider) -> Iterator[Simulator]:
    """A fresh embedded AWS that evaluates IAM."""
    with QuickSimulator.start(enforce_iam=True) as simulator:
        simulator.provider = quick_provider
        with simulator.applied():
            yield simulator


def key_policy() -> str:
    """Return the policy of a key for volumes, logs and what IAM allows."""
    principals = (
        {"AWS": f"arn:aws:iam::{ACCOUNT}:root"},
        {"AWS": AUTO_SCALING},
        {"Service": "logs.us-east-1.amazonaws.com"},
    )
    return policy_text(
        [statement("Allow", "kms:*", principal=each, resource="*") for each in principals]
    )


def test_an_idle_cluster_tells_the_topic_once(
    strict_sim: Simulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as clients:
        kms, sns, sqs = (
            clients.enter_context(contextlib.closing(strict_sim.client(name)))
            for name in ("kms", "sns", "sqs")
        )
        key = kms.create_key(Policy=key_policy())["KeyMetadata"]["Arn"]
        topic = sns.create_topic(Name="ends", Attributes={"KmsMasterKeyId": key})["TopicArn"]
        own, others = (
            subscribed_queue(sns, sqs, topic, {"cluster": [name]}, name) for name in ("etl", "ml")
        )
        monkeypatch.setenv("TERRADASK_NETWORK__ZONES", '["us-east-1a"]')
        monkeypatch.setenv("TERRADASK_NETWORK__NOTIFY_TOPIC_ARN", topic)
        monkeypatch.setenv("TERRADASK_NETWORK__KMS_KEY_ARN", key)
        workspace = Workspace.load()
        workspace.apply(workspace.plan_network())
        with Cluster("etl", n_workers=0, idle_timeout="15s", shutdown_on_close=False) as cluster:
            with pytest.raises(ClusterStopped, match="has ended by itself") as caught:
                eventually(lambda: cluster.scale(0))
            run = workspace.deployment("etl").run()
        (told,) = eventually(lambda: messages_of(sqs, own))
        eventually(lambda: not strict_sim.hosts())
        assert [*messages_of(sqs, own), *messages_of(sqs, others)] == []
        workspace.destroy_cluster("etl")
    assert run is not None
    assert told == {
        "format": 1,
        "event": "cluster-ended",
        "workspace": "default",
        "cluster": "etl",
        "run_id": run.run_id,
        "owner": run.owner,
        "reason": caught.value.reason,
        "started_at": run.started_at,
        "ended_at": caught.value.at,
        "account": ACCOUNT,
        "region": "us-east-1",
        "next": "terradask start etl",
    }
    assert told["reason"].startswith("idle for 15 seconds, since 20")
