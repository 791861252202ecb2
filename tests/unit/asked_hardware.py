"""What `Cluster`'s arguments ask for, up to where Terraform would begin."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster
from terradask._aws.session import Aws
from terradask._catalog.instance_types.model import Catalog, Gpus, InstanceType
from terradask._dask.provision import Provisioner
from terradask._observe.documents import Descriptor, read_descriptor
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_cluster import Place, resolve_cluster
from terradask.errors import TerradaskError
from terradask_stacks.groups import groups_of
from terradask_stacks.loading import load_settings
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings

from .hardware_facts import catalog, prices

ZONES = ("us-east-1a", "us-east-1b")


@dataclass
class Asked(Exception):
    """What a call came to, in place of a cluster."""

    settings: ClusterSettings
    lock: ClusterLock

    @property
    def workers(self) -> list[InstanceType]:
        """The workers' types, in order."""
        return [known().types[name] for name in self.lock.worker_instance_types]

    @property
    def scheduler(self) -> list[InstanceType]:
        """The scheduler's types, in order."""
        return [known().types[name] for name in self.lock.scheduler_instance_types]

    @property
    def markets(self) -> dict[str, str]:
        """Each Auto Scaling group's market."""
        return {group.key: group.market for group in groups_of(self.settings, self.lock)}


def known() -> Catalog:
    """The catalog, with the type of one V100 that the documents name and that the region has no
    longer.
    """
    found = catalog()
    of_v100 = found.types["p3dn.24xlarge"]
    one = replace(
        of_v100,
        name="p3.2xlarge",
        vcpus=8,
        memory_mib=61 * 1024,
        gpus=Gpus(1, "V100", "NVIDIA", 16384),
        local_disk_gb=0,
    )
    zones = {zone: names | {one.name} for zone, names in found.zones.items()}
    return replace(found, types={**found.types, one.name: one}, zones=zones)


def stop_before_aws(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Let `Cluster` come as far as what it asks for, and answer questions to AWS out of the
    catalog.
    """

    def run(provisioner: Any) -> None:
        cluster = load_settings(
            folder, environ={}, dask_config={}, overrides=provisioner._overrides()
        ).settings.cluster_named("etl")
        place = Place("123456789012", "aws", frozenset(ZONES), frozenset({"x86_64", "arm64"}))
        raise Asked(cluster, resolve_cluster(cluster, place, Aws("us-east-1")))

    def named(_aws: Aws, names: set[str]) -> Catalog:
        return replace(
            known(), zones={zone: there & names for zone, there in known().zones.items()}
        )

    (folder / "terradask.toml").touch()
    monkeypatch.setattr(Provisioner, "run", run)
    monkeypatch.setattr(resolve_hardware, "fetch_catalog", named)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (known(), prices()))


def ask(**arguments: Any) -> Asked:
    with pytest.raises(Asked) as caught:
        Cluster(**arguments)
    return caught.value


def refused(**arguments: Any) -> TerradaskError:
    with pytest.raises(TerradaskError) as caught:
        Cluster(**arguments)
    return caught.value


def descriptor(asked: Asked) -> Descriptor:
    groups = {
        group.key: {
            "autoscaling_group": group.key,
            "role": group.role,
            "max_size": group.max_size,
            "market": group.market,
        }
        | ({"worker_group": group.worker_group} if group.worker_group else {})
        for group in groups_of(asked.settings, asked.lock)
    }
    facts = {
        "workspace": "default",
        "cluster": "etl",
        "region": "us-east-1",
        "bucket": "b",
        "zone": asked.lock.zone,
        "secret_id": "s",
    }
    documents = {
        "settings": asked.settings.model_dump(mode="json"),
        "lock": asked.lock.model_dump(mode="json"),
        "worker": {},
    }
    return read_descriptor({"format": 1, **facts, "groups": groups, **documents})


def sizes(types: list[InstanceType]) -> set[tuple[int, float]]:
    return {(one.vcpus, one.memory_gib) for one in types}
