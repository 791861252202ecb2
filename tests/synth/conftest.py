"""One helper for all: stacks to dictionaries."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from terradask._common import masking
from terradask._plans.policy import iam, patterns, secrets
from terradask_stacks.hardware.architecture import Architecture
from terradask_stacks.host_scripts import HostScript
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock, assign_slots
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize

Synth = Callable[..., dict[str, Any]]
SynthText = Callable[..., str]

ACCOUNT = "123456789012"
CREATOR = f"arn:aws:iam::{ACCOUNT}:role/data-science"
ZONES = ["us-east-1a", "us-east-1b"]


IMAGES: dict[Architecture, str] = {"x86_64": "ami-12c6146b", "arm64": "ami-0123456789abcdef0"}


def lock_file(
    zones: dict[str, int] | None = None,
    cluster: ClusterSettings | None = None,
    architectures: Sequence[Architecture] = ("x86_64",),
) -> LockFile:
    """Return answers for the network and for one cluster named etl."""
    cluster = cluster or ClusterSettings()
    images = {architecture: IMAGES[architecture] for architecture in architectures}
    return LockFile(
        network=NetworkLock(
            account=ACCOUNT, zones=zones or assign_slots({}, ZONES), image_ids=images
        ),
        clusters={
            "etl": ClusterLock(
                account=ACCOUNT,
                zone="us-east-1a",
                architecture="arm64" if cluster.expects_arm else "x86_64",
                scheduler_instance_types=cluster.scheduler_vm_types or ["m6i.xlarge"],
                worker_instance_types=cluster.worker_vm_types or ["m6i.xlarge"],
                group_instance_types={
                    name: group.vm_types or ["m6i.xlarge"]
                    for name, group in cluster.worker_groups.items()
                },
                creator=CREATOR if cluster.private_to_creator else None,
            )
        },
    )


def settings_of(
    stack: str,
    *,
    zones: dict[str, int] | None = None,
    locked: dict[str, Any] | None = None,
    **sections: Any,
) -> tuple[Settings, LockFile]:
    """Return settings of these sections, and answers for a stack."""
    settings = Settings.model_validate(sections)
    answers = lock_file(zones, settings.cluster, settings.network.architectures or ("x86_64",))
    if stack == "network":
        assert answers.network is not None
        return settings, answers.with_network(answers.network.model_copy(update=locked or {}))
    lock = answers.clusters[stack].model_copy(update=locked or {})
    return settings, answers.with_cluster(stack, lock)


# Not for the session: tests elsewhere change what grants are made of.
@pytest.fixture(scope="module", autouse=True)
def _looked_at_once() -> Iterator[None]:
    """Look for secrets in each text once, and make the grants of each settings once: most texts of
    a stack are in the stack before too.
    """
    with pytest.MonkeyPatch.context() as patched:
        for module, name in (
            (masking, "masked_text"),
            (patterns, "is_secret_name"),
            (patterns, "masked_text"),
            (patterns, "secret_parts"),
            (secrets, "secrets_in"),
        ):
            patched.setattr(module, name, functools.lru_cache(20_000)(getattr(module, name)))
        patched.setattr(iam, "grants_of", _kept(iam.grants_of))
        layers = secrets.layers
        patched.setattr(secrets, "layers", functools.lru_cache(20_000)(lambda raw: [*layers(raw)]))
        yield


def _kept(function: Callable[..., Any]) -> Callable[..., Any]:
    kept: dict[str, Any] = {}

    def call(*given: Any) -> Any:
        key = repr(given)
        if key not in kept:
            kept[key] = function(*given)
        return kept[key]

    return call


@pytest.fixture(scope="session")
def synth_text(tmp_path_factory: pytest.TempPathFactory) -> SynthText:
    """Synthesise one stack, ``network`` or ``etl``, from sections of settings, once; return its
    text.

    ``zones`` are the network's with their slots; ``locked`` are answers for the stack that differ
    from the usual ones.
    """
    texts: dict[str, str] = {}

    def run(stack: str, **given: Any) -> str:
        key = repr((stack, given))
        if key not in texts:
            texts[key] = synthesised(stack, **given)
        return texts[key]

    def synthesised(stack: str, scripts: dict[str, HostScript] | None = None, **given: Any) -> str:
        settings, answers = settings_of(stack, **given)
        folder: Path = tmp_path_factory.mktemp("synth")
        written = synthesize(
            settings,
            answers,
            out_dir=folder,
            stacks=[stack],
            clusters={"etl": settings.cluster},
            scripts=scripts or {},
        )
        return (written[stack] / "cdk.tf.json").read_bytes().decode()

    return run


@pytest.fixture(scope="session")
def synth(synth_text: SynthText) -> Synth:
    """The same, read as JSON."""

    def run(stack: str, **given: Any) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(synth_text(stack, **given))
        return document

    return run


@pytest.fixture(scope="session")
def network(synth: Synth) -> dict[str, Any]:
    """The network's stack with one ingress rule and data in two buckets."""
    return synth(
        "network",
        workspace={"tags": {"team": "research"}},
        network={
            "ingress": [{"cidr": "203.0.113.7/32", "description": "office"}],
            "data_buckets": ["lake/raw", "results"],
        },
    )


@pytest.fixture(scope="session")
def cluster(synth: Synth) -> dict[str, Any]:
    """The stack of a cluster with two types of workers."""
    return synth(
        "etl",
        workspace={"tags": {"team": "research"}},
        cluster={"worker_vm_types": ["m6i.xlarge", "m5.xlarge"], "tags": {"job": "7"}},
    )
