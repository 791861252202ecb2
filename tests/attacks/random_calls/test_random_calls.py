"""Attackers make random sequences of the calls that their policies permit, while an administrator
uses the cluster that they attack. No key is read, nothing foreign changes, no group has more hosts
than its maximum, and no command of the administrator does harm.

``make soak`` does it for minutes; TERRADASK_SEED repeats a run.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask._aws.session import Aws
from terradask._workspace.caller_scope import caller_scope
from terradask_modules.caller_policies import caller_policies
from terradask_modules.names import bucket_name
from terradask_simulator import Simulator

from ...quick_provider import QuickProvider
from ...seeds import drawn
from ...shared_simulator import QuickSimulator
from ...simulator.acting import ACCOUNT, REGION, Account
from ...waiting import eventually
from .administrator import EVERYTHING, Administrator
from .foreign import plant_foreign
from .reach import Actor
from .siege import Attacker, Siege, caller, task
from .stage import Stage

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

SHARED = """
[cluster]
max_workers = 3
[clusters.vault]
private_to_creator = true
"""
#: In a VPC that is there already: a network of its own would only take longer.
ISOLATED = """
[workspace]
name = "alone"
isolation = "cluster"
[cluster]
max_workers = 3
[network]
vpc_id = "{vpc_id}"
[network.subnets."us-east-1a"]
scheduler = "{public_subnet_id}"
worker = "{private_subnet_id}"
"""
PRIVATE = frozenset({"terradask/default/vault"})
PEOPLE, HOSTS = ("user", "ongoing"), ("scheduler", "worker")
#: How long each workspace is attacked: the isolated one by hosts, then by who makes its clusters,
#: with what it takes to deploy them anew.
SHARED_SECONDS, HOSTS_SECONDS, MAKERS_SECONDS = 50, 25, 75
#: Bursts of calls by one attacker.
BURSTS = 6


@contextlib.contextmanager
def staged(sim: Simulator, folder: Path, *clusters: str) -> Iterator[Stage]:
    """Deploy clusters of a folder's workspace, as an administrator, who this process is then."""

    def load() -> Workspace:
        return Workspace.load(folder)

    with contextlib.ExitStack() as stack, sim.acting_as("administrator", EVERYTHING):
        owner = Account(sim, {}, stack)
        if not (folder / "terradask.toml").exists():
            _isolate(owner, folder, stack.enter_context(pytest.MonkeyPatch.context()))
            load().apply(load().plan_network())
        stage = Stage(sim, load().settings.workspace.name, load, owner, clusters)
        stage.deploy()
        yield stage


def _isolate(owner: Account, folder: Path, patch: pytest.MonkeyPatch) -> None:
    """Write the settings of a workspace that isolates its clusters, with a state of its own."""
    answer = owner.client("s3").get_object(
        Bucket=bucket_name("default", ACCOUNT, REGION), Key="workspace.json"
    )
    shared = json.load(answer["Body"])
    text = ISOLATED.format(**shared, **shared["zones"]["us-east-1a"])
    (folder / "terradask.toml").write_text(text)
    patch.setenv("TERRADASK_STATE_DIR", str(folder / ".terradask"))


def surround(stage: Stage) -> None:
    """Make what is foreign, and wait for it."""
    zone = next(iter(stage.load().baseline().zones.values()))
    data = {"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"}
    plant_foreign(stage.owner, data, zone.worker_subnet_id)
    eventually(lambda: sum(kind == "instance" for kind, _ in stage.lens.take()) == 2)


def attackers(
    stage: Stage,
    policies: dict[str, list[dict[str, Any]]],
    clients: contextlib.ExitStack,
    roles: str,
    **actor: Any,
) -> list[Attacker]:
    """Return a person or pipeline for each of some policies, and code on a host of each role, whose
    roles' names begin like this.
    """
    sim, name = stage.simulator, stage.workspace
    return [
        *people_of(stage, policies, clients),
        *(
            task(sim, stage.owner, clients, Actor(role, name, **actor), f"{roles}-{role}")
            for role in HOSTS
        ),
    ]


def people_of(
    stage: Stage,
    policies: dict[str, list[dict[str, Any]]],
    clients: contextlib.ExitStack,
    **actor: Any,
) -> list[Attacker]:
    """Return a person or pipeline for each of some policies."""
    return [
        caller(
            stage.simulator, clients, Actor(role, stage.workspace, private=PRIVATE, **actor), one
        )
        for role, one in policies.items()
    ]


def besiege(siege: Siege, gather: Callable[[], list[Attacker]], seconds: float) -> None:
    """Attack by turns. Clusters that an episode has broken are deployed anew, by attackers' roles
    that may be new ones.
    """
    deadline, everybody = time.monotonic() + seconds, gather()
    siege.stage.settle(siege.cluster)
    turns = itertools.count()
    while time.monotonic() < deadline:
        rounds, turn = divmod(next(turns), len(everybody))
        if not siege.episode(everybody[turn], BURSTS, terraform=rounds % 4 == 3):
            siege.deploy_anew()
            everybody = gather()
            siege.stage.settle(siege.cluster)
    print(siege.report(everybody))


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_minutes(
    policies: dict[str, list[dict[str, Any]]], quick_provider: QuickProvider, tmp_path: Path
) -> None:
    draws = drawn("random calls")
    shared, isolated = tmp_path / "shared", tmp_path / "isolated"
    for folder in (shared, isolated):
        folder.mkdir()
        quick_provider.lock(folder)
    (shared / "terradask.toml").write_text(SHARED)
    with (
        QuickSimulator.start(enforce_iam=True, boot_hosts=False) as sim,
        contextlib.ExitStack() as clients,
    ):
        sim.provider = quick_provider
        with sim.acting_as("setup", *policies["setup"]):
            network = Workspace.load(shared, network={"zones": ["us-east-1a", "us-east-1b"]})
            network.apply(network.plan_network())
        with staged(sim, shared, "etl", "ml", "vault") as stage:
            surround(stage)
            people = {role: policies[role] for role in PEOPLE}
            gather = partial(attackers, stage, people, clients, "terradask-default")
            besiege(
                Siege(stage, "etl", draws, Administrator(stage.load, draws)), gather, SHARED_SECONDS
            )
        with staged(sim, isolated, "ml", "etl") as stage:
            path = "terradask/alone/terradask-alone.etl"
            hosts = partial(attackers, stage, {}, clients, path, cluster="etl", isolated=True)
            besiege(
                Siege(stage, "ml", draws, Administrator(stage.load, draws)), hosts, HOSTS_SECONDS
            )
            scope = caller_scope(stage.load().settings, Aws(REGION))
            people = {role: list(caller_policies(scope, role).values()) for role in PEOPLE}
            makers = partial(people_of, stage, people, clients, isolated=True)
            besiege(
                Siege(stage, "ml", draws, Administrator(stage.load, draws)), makers, MAKERS_SECONDS
            )


@pytest.mark.life
def test_a_few_calls(
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    quick_provider: QuickProvider,
    tmp_path: Path,
) -> None:
    """A slice that costs seconds: one of the people and one of the hosts; groups have no hosts."""
    draws = drawn("a few random calls")
    quick_provider.lock(tmp_path)
    (tmp_path / "terradask.toml").write_text("[cluster]\nmax_workers = 3\n")
    with staged(sim, tmp_path, "etl") as stage, contextlib.ExitStack() as clients:
        clients.callback(stage.load().destroy_cluster, "etl")
        before = stage.lens.take()
        clients.callback(stage.clear, before)
        surround(stage)
        with sim.no_capacity():
            people = {role: policies[role] for role in PEOPLE}
            everybody = attackers(stage, people, clients, "terradask-default")
            stage.settle("etl")
            siege = Siege(stage, "etl", draws, Administrator(stage.load, draws))
            for alike in (everybody[: len(PEOPLE)], everybody[len(PEOPLE) :]):
                siege.episode(draws.choice(alike), 1)
            print(siege.report(everybody))
