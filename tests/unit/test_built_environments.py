"""What hosts have built is kept on the user's disk, and named in the next run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._clusters.attach import Attachment
from terradask._clusters.built_environments import (
    BuiltEnvironments,
    environment_id,
    wait_for_archive,
)
from terradask._clusters.deployment import Deployment
from terradask._common.disk_cache import DiskCache
from terradask._observe.keys import Bundle, KeySet
from terradask._observe.record import ClusterRecord
from terradask.errors import DocumentFormat, HostFailed
from terradask_host.documents import EnvironmentArchive, Run
from terradask_host.environment_manifest import (
    BUILDING,
    FAILED,
    READY,
    SEPARATE,
    EnvironmentManifest,
)
from terradask_stacks.settings import ClusterSettings

ARCHIVE = EnvironmentArchive("environments/etl/run-1-i-1-0.tar", 9, "0" * 64)
RUN = Run("run-1", "", "", "", "3.12", {}, 1)
_BUNDLE = Bundle("", "-----BEGIN the scheduler's key")
KEYS = KeySet("run-1", "", _BUNDLE, _BUNDLE, _BUNDLE, sha256={"software.lock": "a1"})
SAID = EnvironmentManifest("run-1", "a1", READY, ARCHIVE)


class Objects:
    """The cluster's objects: one document, or what is no JSON."""

    def __init__(self) -> None:
        self.document: dict[str, Any] | None = None
        self.is_broken = False

    def read(self, name: str) -> dict[str, Any] | None:
        assert name == "environment.json"
        if self.is_broken:
            raise DocumentFormat("no JSON", allowed="JSON", advice="")
        return self.document

    def says(self, manifest: EnvironmentManifest, key: str = KEYS.scheduler.key) -> None:
        self.document = manifest.proven(key.encode()).to_document()


def _client(_: str) -> Any:
    return SimpleNamespace(meta=SimpleNamespace(endpoint_url="https://s3.eu-west-1.amazonaws.com"))


@pytest.fixture
def objects() -> Objects:
    return Objects()


@pytest.fixture
def known(objects: Objects, tmp_path: Path) -> BuiltEnvironments:
    return built(objects, tmp_path)


def built(
    objects: Objects, folder: Path, name: str = "etl", *, private: bool = False
) -> BuiltEnvironments:
    descriptor = SimpleNamespace(cluster_settings=ClusterSettings(private_to_creator=private))
    record = SimpleNamespace(
        aws=SimpleNamespace(client=_client),
        bucket="b",
        objects=objects,
        name=name,
        descriptor=descriptor,
    )
    return BuiltEnvironments(cast(ClusterRecord, record), DiskCache("environments", folder))


def test_a_private_cluster_has_what_it_has_built_itself(objects: Objects, tmp_path: Path) -> None:
    """Others may read the keys of the runs of other clusters."""
    objects.says(SAID)
    built(objects, tmp_path).learn("id", RUN, KEYS)
    private = built(objects, tmp_path, "vault", private=True)
    assert built(objects, tmp_path, "another").find("id") == ARCHIVE
    assert private.find("id") is None
    private.learn("id", RUN, KEYS)
    assert private.find("id") == ARCHIVE
    assert built(objects, tmp_path, "safe", private=True).find("id") is None


def test_what_is_built_is_found_again(objects: Objects, known: BuiltEnvironments) -> None:
    assert known.find("id") is None
    objects.says(SAID)
    known.learn("id", RUN, KEYS)
    assert known.find("id") == ARCHIVE
    assert known.find("another") is None
    newer = replace(ARCHIVE, key="environments/etl/run-2-i-2-0.tar")
    objects.says(replace(SAID, archive=newer))
    known.learn("id", RUN, KEYS)
    assert known.find("id") == newer


@pytest.mark.parametrize(
    ("said", "key"),
    [
        pytest.param(SAID, "another", id="another key"),
        pytest.param(replace(SAID, run_id="run-0"), KEYS.scheduler.key, id="an earlier run"),
        pytest.param(replace(SAID, lock_sha256="b2"), KEYS.scheduler.key, id="another lock"),
        pytest.param(replace(SAID, state=BUILDING), KEYS.scheduler.key, id="not ready"),
        pytest.param(replace(SAID, archive=None), KEYS.scheduler.key, id="no archive"),
        pytest.param(
            replace(SAID, archive=replace(ARCHIVE, key="clusters/etl/x.tar")),
            KEYS.scheduler.key,
            id="an object that others may write",
        ),
    ],
)
def test_only_what_the_hosts_of_an_own_run_have_proven_is_learned(
    objects: Objects, known: BuiltEnvironments, said: EnvironmentManifest, key: str
) -> None:
    objects.says(said, key)
    known.learn("id", RUN, KEYS)
    assert known.find("id") is None


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (replace(SAID, state=FAILED, archive=None, reason="no space left"), "no space left"),
        (replace(SAID, state=SEPARATE, archive=None, reason="no right"), "no right"),
        (replace(SAID, state=BUILDING), "no environment within 0 s"),
        (None, "builds none"),
    ],
)
def test_who_waits_for_an_archive_hears_why_there_is_none(
    objects: Objects, said: EnvironmentManifest | None, why: str
) -> None:
    record = cast(ClusterRecord, SimpleNamespace(name="env-team", objects=objects))
    objects.says(SAID)
    waits = {"silent_seconds": -1.0, "poll_seconds": 0.01}
    assert wait_for_archive(record, RUN, KEYS, timeout_seconds=9, **waits) == ARCHIVE
    objects.document = None
    if said is not None:
        objects.says(said)
    seconds = 9 if said is None else 0.05
    with pytest.raises(HostFailed, match=why):
        wait_for_archive(record, RUN, KEYS, timeout_seconds=seconds, **waits)


def test_no_document_and_a_broken_one_teach_nothing(
    objects: Objects, known: BuiltEnvironments
) -> None:
    known.learn("id", RUN, KEYS)
    objects.document = {"format": 1, "archive": "x"}
    known.learn("id", RUN, KEYS)
    objects.is_broken = True
    known.learn("id", RUN, KEYS)
    assert known.find("id") is None


def test_a_run_that_another_client_started_teaches_nothing(
    objects: Objects, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    aws = SimpleNamespace(client=_client, region="eu-west-1")
    deployment = Deployment(cast(Any, aws), "b", "etl")
    deployment._record.objects = cast(Any, objects)
    deployment._record._descriptor = cast(Any, SimpleNamespace(cluster_settings=ClusterSettings()))
    objects.says(SAID)
    attachment = Attachment(cast(Any, None), RUN, cast(Any, None), KEYS)
    deployment.learn_environment(attachment)
    assert not list(tmp_path.iterdir())
    deployment._starter.started_run_id, deployment._starter.environment_id = "run-1", "id"
    deployment.learn_environment(attachment)
    assert BuiltEnvironments(deployment._record).find("id") == ARCHIVE


def test_the_id_follows_from_all_that_decides_what_is_built() -> None:
    template = SimpleNamespace(model_dump=lambda: {"id": "lt-1", "version": "3"})
    newer = SimpleNamespace(model_dump=lambda: {"id": "lt-1", "version": "4"})

    def identity(
        name: str = "etl",
        *,
        isolation: str = "workspace",
        architecture: str = "x86_64",
        image: Any = template,
        python: str = "3.12",
        lock: str = "dask==2026.1.1\n",
    ) -> str:
        baseline = SimpleNamespace(
            isolation=isolation, templates={"scheduler": {"x86_64": image, "arm64": image}}
        )
        record = SimpleNamespace(name=name, descriptor=SimpleNamespace(architecture=architecture))
        return environment_id(cast(Any, record), cast(Any, baseline), python, lock)

    assert identity() == identity("ml")
    others = [
        identity(isolation="cluster"),
        identity("ml", isolation="cluster"),
        identity(architecture="arm64"),
        identity(image=newer),
        identity(python="3.13"),
        identity(lock="dask==2026.1.2\n"),
    ]
    assert len({identity(), *others}) == 7
