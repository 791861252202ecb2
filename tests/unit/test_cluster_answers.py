"""What is known of declared clusters' machines beside their plans: for quotas, and to
explain them.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._catalog.instance_types.zones import ZoneEvidence
from terradask._common.progress import silent
from terradask._network.baseline import Baseline
from terradask._synthesis import resolve_hardware
from terradask._synthesis.answers import (
    ClusterResolver,
    check_gpu_drivers,
    group_types,
)
from terradask._synthesis.resolve_cluster import Place, resolve_cluster
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import LoadedSettings, load_settings
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock, write_lock
from terradask_stacks.settings import ClusterSettings, NetworkSettings
from terradask_stacks.settings.hardware import DEFAULT_INSTANCE_TYPES

from .baselines import baseline
from .hardware_facts import catalog, prices

TOML = """
[clusters.asked]
worker_cpu = 8
[clusters.named]
worker_vm_types = ["r6i.large"]
"""
ZONES = ["us-east-1a", "us-east-1b"]


@pytest.fixture
def today(monkeypatch: pytest.MonkeyPatch) -> dict[str, Decimal]:
    """Today's prices, which a test may change."""
    found = dict(prices())
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (catalog(), found))
    monkeypatch.setattr(resolve_hardware, "fetch_catalog", lambda *_: catalog())
    monkeypatch.setattr(resolve_hardware, "read_zone_evidence", lambda *_: ZoneEvidence())
    return found


@pytest.fixture
def loaded(tmp_path: Path, today: dict[str, Decimal]) -> LoadedSettings:
    """Settings of which one cluster's answers are locked."""
    (tmp_path / "terradask.toml").write_text(TOML)
    found = load_settings(tmp_path, environ={})
    place = Place(
        "123456789012", "aws", frozenset(ZONES), frozenset({"x86_64"}), workspace="default"
    )
    lock = resolve_cluster(found.settings.clusters["asked"], place, Aws("us-east-1"))
    write_lock(found.lock_path, LockFile(clusters={"asked": lock}))
    return found


def _explained(loaded: LoadedSettings, name: str) -> Any:
    aws = SimpleNamespace(partition="aws")
    architectures = frozenset({"x86_64"})
    baseline = SimpleNamespace(
        account="123456789012", zones=dict.fromkeys(ZONES), architectures=architectures, given=[]
    )
    return ClusterResolver(loaded, aws, silent).explain(name, baseline, None)  # type: ignore[arg-type]


def test_types_of_every_declared_cluster_are_known(
    loaded: LoadedSettings, today: dict[str, Decimal]
) -> None:
    found = group_types(loaded, Aws("us-east-1"), loaded.settings.clusters, ZONES)
    assert found["named"] == {"workers": ["r6i.large"], "scheduler": list(DEFAULT_INSTANCE_TYPES)}
    locked = found["asked"]["workers"]
    assert {catalog().types[name].vcpus for name in locked} == {8}
    today[locked[-1]] = Decimal("0.0001")
    assert (
        group_types(loaded, Aws("us-east-1"), loaded.settings.clusters, ZONES)["asked"]["workers"]
        == locked
    )
    loaded.lock_path.unlink()
    assert (
        group_types(loaded, Aws("us-east-1"), loaded.settings.clusters, ZONES)["asked"]["workers"][
            0
        ]
        == locked[-1]
    )


def test_an_explanation_tells_what_is_locked_from_what_would_be_chosen(
    loaded: LoadedSettings, today: dict[str, Decimal]
) -> None:
    before = _explained(loaded, "asked")
    assert (before.changed, list(before.locked)) == ({}, ["workers", "scheduler"])
    today[before.locked["workers"][-1]] = Decimal("0.0001")
    assert list(_explained(loaded, "asked").changed) == ["workers"]
    named = _explained(loaded, "named")
    assert named.locked == {}
    assert "zone: us-east-1a: as good as us-east-1b, and first by name" in named.explain()
    # Why the zone was taken, when it was, and not that the cluster is there by now.
    assert before.chosen.why_zone == named.chosen.why_zone


def _train(
    loaded: LoadedSettings, network: dict[str, Any], **cluster: Any
) -> tuple[ClusterResolver, NetworkLock]:
    clusters = {**loaded.settings.clusters, "train": ClusterSettings(**cluster)}
    settings = loaded.settings.model_copy(
        update={"clusters": clusters, "network": NetworkSettings.model_validate(network)}
    )
    resolver = ClusterResolver(replace(loaded, settings=settings), Aws("us-east-1"), silent)
    known = NetworkLock(
        account="123456789012",
        zones={zone: slot for slot, zone in enumerate(ZONES)},
        image_ids={"x86_64": "ami-0123456789abcdef0"},
    )
    return resolver, known


@pytest.mark.parametrize(
    ("network", "has_image"),
    [
        ({"gpu_images": True}, True),
        # Whether it has drivers, AWS doesn't show.
        ({"image": "ami-0123456789abcdef0", "architectures": ["x86_64"]}, False),
    ],
)
def test_hosts_with_gpus_have_the_networks_image_with_drivers(
    loaded: LoadedSettings, network: dict[str, Any], has_image: bool
) -> None:
    resolver, known = _train(loaded, network, worker_gpu=1)
    lock = resolver.declared("train", known).lock
    assert (lock.gpu_image, bool(lock.gpus)) == (has_image, True)


@pytest.mark.parametrize(
    ("cluster", "where", "given"),
    [
        ({"worker_gpu": 1}, "cluster.worker_gpu", "g4dn.xlarge"),
        ({"worker_gpu_type": "A10G"}, "cluster.worker_gpu_type", "g5.xlarge"),
        ({"worker_vm_types": ["g4dn.xlarge"]}, "cluster.worker_vm_types", "g4dn.xlarge"),
        ({"scheduler_gpu": True}, "cluster.scheduler_gpu", "g4dn.xlarge"),
        (
            {"worker_groups": {"train": {"gpu": 1}}},
            "cluster.worker_groups.train.gpu",
            "g4dn.xlarge",
        ),
    ],
)
def test_hosts_with_gpus_and_without_drivers_are_refused_before_anything_is_made(
    loaded: LoadedSettings, cluster: dict[str, Any], where: str, given: str
) -> None:
    resolver, known = _train(loaded, {}, **cluster)
    with pytest.raises(SettingsError) as refused:
        resolver.declared("train", known)
    (finding,) = refused.value.findings
    assert (finding.where, given in finding.given) == (where, True)
    assert finding.advice == "set network.gpu_images = true and run: terradask apply network"


def test_gpus_that_the_networks_image_has_no_driver_for_are_refused() -> None:
    types = ["g4dn.xlarge", "p3.2xlarge"]
    cluster = ClusterSettings(worker_vm_types=types)
    lock = ClusterLock(
        account="123456789012",
        partition="aws",
        zone="us-east-1a",
        architecture="x86_64",
        scheduler_instance_types=["m6i.large"],
        worker_instance_types=types,
        gpus=dict.fromkeys(types, 1),
    )
    with pytest.raises(SettingsError, match="no driver for these") as refused:
        check_gpu_drivers(cluster, lock, NetworkSettings(gpu_images=True))
    (finding,) = refused.value.findings
    assert (finding.where, finding.given) == ("cluster.worker_vm_types", "p3.2xlarge")
    check_gpu_drivers(cluster, lock, NetworkSettings(image="ami-0123456789abcdef0"))


DISKS = {"worker_disk_throughput": 500, "scheduler_disk_size": 100}


@pytest.mark.parametrize("deployed", [False, True])
def test_throughput_and_a_schedulers_disk_are_taken_from_the_network(
    loaded: LoadedSettings, monkeypatch: pytest.MonkeyPatch, deployed: bool
) -> None:
    resolver, known = _train(loaded, {}, **DISKS)
    monkeypatch.setattr(Aws, "partition", "aws")
    template = {"x86_64": {"id": "lt-1", "version": "1"}}
    found = (
        resolver.deployed("train", _deployed({"250": template}), None, refresh=False)
        if deployed
        else resolver.declared("train", known)
    )
    assert found.lock.network_disks_gib == {"scheduler": 250, "worker": None}
    assert found.lock.network_disks_mibps == {"scheduler": None, "worker": 500}


@pytest.mark.parametrize("disks", [None, {"worker": {}}])
def test_a_network_of_an_earlier_version_offers_them_when_it_is_applied(
    loaded: LoadedSettings, disks: dict[str, Any] | None
) -> None:
    resolver, _ = _train(loaded, {}, **DISKS)
    with pytest.raises(SettingsError) as refused:
        resolver.deployed("train", _deployed(None, disks=disks), None, refresh=False)
    assert {(one.where, one.advice) for one in refused.value.findings} == {
        (f"cluster.{name}", "run: terradask apply network") for name in DISKS
    }


def _deployed(schedulers: Any, **changes: Any) -> Baseline:
    """Return a deployed network with these launch templates for schedulers' larger disks."""
    subnet = dict.fromkeys(("public_subnet_id", "private_subnet_id"), "subnet-1") | dict.fromkeys(
        ("scheduler_subnet_id", "worker_subnet_id"), "subnet-1"
    )
    cidrs = {"public_cidr": "10.64.0.0/24", "private_cidr": "10.64.16.0/20"}
    fast = {"500": {"usual": {"x86_64": {"id": "lt-1", "version": "1"}}}}
    return baseline(
        zones={zone: {**subnet, **cidrs} for zone in ZONES},
        launch={"disk_size_gib": {"scheduler": 50, "worker": 100}},
        **{"disks": {"scheduler": schedulers, "worker_throughputs": fast}, **changes},
    )
