"""Clusters whose hosts run a container image, made by the real Terraform: which image, from the
plan to the host. Hosts of the embedded AWS run in this process's environment in its place;
`tests/boot/test_container.py` runs one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from terradask import Cluster, Workspace
from terradask.errors import InvalidInput, SoftwareUnusable
from terradask_simulator import Simulator

from ..command import in_this_process
from ..container_registry import ContainerRegistry, file, layer
from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[clusters.boxed]
container = "{image}"
n_workers = 1
"""


@pytest.fixture
def registry() -> Iterator[ContainerRegistry]:
    made = ContainerRegistry()
    with made.serving():
        yield made


def push(registry: ContainerRegistry, tag: str, content: str) -> str:
    return registry.push("team/dask", tag, {"amd64": [layer(file("made", content))]})


@pytest.mark.usefixtures("sim_environ")
def test_a_plan_shows_the_digest_and_hosts_get_no_other(
    sim: Simulator,
    quick_provider: QuickProvider,
    registry: ContainerRegistry,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    first = push(registry, "1", "first")
    name = f"{registry.address}/team/dask:1"
    (tmp_path / "terradask.toml").write_text(SETTINGS.format(image=name))
    quick_provider.lock(tmp_path)
    workspace = Workspace.load(tmp_path)
    for form in ("terminal", "markdown", "json"):
        shown = in_this_process("plan", "boxed", "--format", form)
        assert f"{name}@{first}" in shown.stdout, shown.stderr
    workspace.apply(workspace.plan_cluster("boxed"))
    try:
        # What the tag names is the team's to change, and never a cluster's without a plan.
        second = push(registry, "1", "second")
        again = Workspace.load(tmp_path)
        assert not again.plan_cluster("boxed").summary.changed
        with Cluster("boxed", connect="private") as cluster, cluster.get_client() as client:
            assert client.submit(sum, [1, 2, 3]).result() == 6
            run = again.deployment("boxed").run()
            assert run is not None
            assert run.container == f"{name}@{first}"
            assert run.environment is None
        with pytest.raises(InvalidInput, match="no other packages"):
            again.deployment("boxed").start(software=["pandas"])
        refreshed = in_this_process("plan", "boxed", "--refresh").stdout
        assert f'-    "container": "{name}@{first}"' in refreshed
        assert f'+    "container": "{name}@{second}"' in refreshed
    finally:
        Workspace.load(tmp_path).destroy_cluster("boxed")


@pytest.mark.usefixtures("sim_environ")
def test_a_cluster_of_an_image_that_is_not_there_is_never_made(
    sim: Simulator, registry: ContainerRegistry
) -> None:
    with pytest.raises(SoftwareUnusable, match="HTTP status 404"):
        Cluster("nowhere", container=f"{registry.address}/team/dask:gone")
    assert not Workspace.load().deployment("nowhere").exists
    with pytest.raises(InvalidInput, match="account is not supported"):
        Cluster("nowhere", container="dask:1", account="other")
