"""One processor architecture for a whole cluster: asked for, or said by the types that
are named.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from terradask._aws.session import Aws
from terradask._observe.documents import read_descriptor
from terradask._synthesis import resolve_hardware
from terradask._synthesis.resolve_cluster import Place, named_or_default, resolve_cluster
from terradask.errors import BaselineError, InvalidInput
from terradask_stacks.hardware.architecture import is_arm_name
from terradask_stacks.lock import ClusterLock
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.settings.hardware import DEFAULT_ARM_INSTANCE_TYPES, DEFAULT_INSTANCE_TYPES

from .hardware_facts import catalog, prices

BOTH = ("x86_64", "arm64")


@pytest.fixture(autouse=True)
def _aws_is_a_catalog(monkeypatch: pytest.MonkeyPatch) -> None:
    def named(_aws: Aws, names: Any) -> Any:
        types = {name: catalog().types[name] for name in names}
        return replace(
            catalog(),
            types=types,
            zones={zone: there & types.keys() for zone, there in catalog().zones.items()},
        )

    monkeypatch.setattr(resolve_hardware, "fetch_catalog", named)
    monkeypatch.setattr(resolve_hardware, "priced_catalog", lambda _aws: (catalog(), prices()))


def resolved(
    lock: ClusterLock | None = None, *, network: tuple[str, ...] = BOTH, **settings: Any
) -> ClusterLock:
    place = Place(
        "123456789012", "aws", frozenset({"us-east-1a", "us-east-1b"}), frozenset(network)
    )
    return resolve_cluster(ClusterSettings.model_validate(settings), place, Aws("us-east-1"), lock)


def architectures(lock: ClusterLock) -> set[str]:
    """Return what the types of all groups are for."""
    groups = (
        lock.scheduler_instance_types,
        lock.worker_instance_types,
        *lock.group_instance_types.values(),
    )
    return {catalog().types[name].architecture for types in groups for name in types}


def test_nothing_said_is_x86() -> None:
    lock = resolved()
    assert (lock.architecture, architectures(lock)) == ("x86_64", {"x86_64"})
    assert (
        resolved(arm=False).worker_instance_types
        == lock.worker_instance_types
        == list(DEFAULT_INSTANCE_TYPES)
    )


def test_asked_for_it_is_the_default_of_arm_for_all() -> None:
    lock = resolved(arm=True, worker_groups={"big": {"memory": "64 GiB"}})
    assert (
        lock.scheduler_instance_types
        == lock.worker_instance_types
        == list(DEFAULT_ARM_INSTANCE_TYPES)
    )
    assert (lock.architecture, architectures(lock)) == ("arm64", {"arm64"})
    assert resolved(lock, arm=True, worker_groups={"big": {"memory": "64 GiB"}}) is lock
    assert resolved(lock).architecture == "x86_64"


def test_the_defaults_of_arm_are_four_cores_and_sixteen_gib() -> None:
    types = [catalog().types[name] for name in DEFAULT_ARM_INSTANCE_TYPES]
    assert {(one.vcpus, one.memory_gib, one.architecture) for one in types} == {(4, 16, "arm64")}


@pytest.mark.parametrize(
    "said",
    [
        {"worker_cpu": 1},
        {"worker_memory": "8 GiB", "scheduler_cpu": [1, 2]},
        {"worker_gpu": True},
        {"worker_cpu": 8, "worker_groups": {"gpu": {"gpu": 1}}},
    ],
)
def test_what_is_asked_for_is_found_among_arm(said: dict[str, Any]) -> None:
    lock = resolved(arm=True, **said)
    assert (lock.architecture, architectures(lock)) == ("arm64", {"arm64"})


@pytest.mark.parametrize(
    "said",
    [
        {"worker_vm_types": ["m7g.xlarge", "c7gn.2xlarge"]},
        {"scheduler_vm_types": ["t4g.large"]},
        {"worker_groups": {"fast": {"vm_types": ["c8g.xlarge"]}}, "worker_memory": "32 GiB"},
        {"worker_vm_types": ["g5g.xlarge"]},
        {"worker_vm_types": ["m7g.xlarge"], "arm": True},
    ],
)
def test_a_named_type_says_it_for_all(said: dict[str, Any]) -> None:
    lock = resolved(**said)
    assert (lock.architecture, architectures(lock)) == ("arm64", {"arm64"})
    assert ClusterSettings.model_validate(said).expects_arm


@pytest.mark.parametrize(
    ("said", "options"),
    [
        ({"worker_vm_types": ["m7g.xlarge", "m6i.xlarge"]}, ("worker_vm_types",)),
        (
            {"worker_vm_types": ["m7g.xlarge"], "scheduler_vm_types": ["m6i.large"]},
            ("worker_vm_types", "scheduler_vm_types"),
        ),
        (
            {
                "worker_vm_types": ["m6i.xlarge"],
                "worker_groups": {"b": {"vm_types": ["c7g.large"]}},
            },
            ("worker_vm_types", "worker_groups.b.vm_types"),
        ),
        ({"worker_vm_types": ["m6i.xlarge"], "arm": True}, ("worker_vm_types", "arm")),
        ({"scheduler_vm_types": ["m7g.large"], "arm": False}, ("scheduler_vm_types", "arm")),
    ],
)
def test_two_architectures_are_refused(said: dict[str, Any], options: tuple[str, ...]) -> None:
    with pytest.raises(InvalidInput) as caught:
        resolved(**said)
    assert all(name in str(caught.value) for name in options)
    assert all(
        name in str(caught.value.given)
        for name in (*said.get("worker_vm_types", ()), *said.get("scheduler_vm_types", ()))
    )


def test_a_network_without_launch_templates_for_it_says_what_to_set() -> None:
    with pytest.raises(BaselineError, match="no launch templates for") as caught:
        resolved(network=("x86_64",), arm=True)
    assert caught.value.problem == "the network has no launch templates for arm64"
    assert caught.value.allowed == "instance types for x86_64"
    assert 'network.architectures = ["x86_64", "arm64"] and run: terradask apply network' in str(
        caught.value
    )
    with pytest.raises(BaselineError, match=r"cluster\.arm = true"):
        resolved(network=("arm64",))
    # What was locked doesn't hold once they are gone.
    with pytest.raises(BaselineError, match="no launch templates for"):
        resolved(resolved(arm=True), network=("x86_64",), arm=True)


def test_quotas_count_the_default_of_the_architecture() -> None:
    assert set(named_or_default(ClusterSettings(arm=True))["workers"]) == set(
        DEFAULT_ARM_INSTANCE_TYPES
    )
    found = named_or_default(ClusterSettings(worker_vm_types=["c7g.large"]))
    assert found == {"workers": ["c7g.large"], "scheduler": list(DEFAULT_ARM_INSTANCE_TYPES)}


def test_the_descriptor_tells() -> None:
    document = {
        "workspace": "w",
        "cluster": "c",
        "region": "r",
        "bucket": "b",
        "zone": "z",
        "groups": {},
        "secret_id": "s",
        "settings": {},
    }
    for lock, architecture in (({"architecture": "arm64"}, "arm64"), ({}, "x86_64")):
        descriptor = read_descriptor({**document, "format": 1, "worker": {}, "lock": lock})
        assert descriptor.architecture == architecture
        # Who asks for what the types' names have said gets the cluster as it is.
        assert descriptor.cluster_settings.arm is (architecture == "arm64")


def test_names_say_what_ec2_says() -> None:
    # NVIDIA's Grace stands behind the dash.
    wrong = {
        name
        for name, one in catalog().types.items()
        if is_arm_name(name) != (one.architecture == "arm64")
    }
    assert {name.partition(".")[0] for name in wrong} <= {"p6e-gb200", "p6e-gb300"}
