"""Client and cluster of different versions are an error that lists both."""

import importlib.metadata
from types import SimpleNamespace

import pytest

from terradask._progress import silent
from terradask._runtime.attachment import Attachment
from terradask._runtime.documents import Descriptor, DocumentFormat, Run, SchedulerAddress
from terradask._runtime.keys import Bundle, KeySet
from terradask._runtime.options import parse_name
from terradask._runtime.provision import Provisioner, Request
from terradask._runtime.software import python_version
from terradask._runtime.versions import check_versions
from terradask.errors import InvalidInput, StalePlan, StateLocked, TerraformError, VersionMismatch
from terradask_stacks.settings import ClusterSettings, Settings

HERE = {name: importlib.metadata.version(name) for name in ("dask", "distributed")}


def attachment(python, packages):
    descriptor = Descriptor("default", "etl", "us-east-1", "bucket", "us-east-1a", {}, 9, "secret", {}, {})
    scheduler = SchedulerAddress("r1", "i-1", 1, "tls://10.0.0.1:8786", None, 8787, python, packages)
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", python, packages, 2)
    keys = KeySet("r1", "ca", *(Bundle("cert", "key") for _ in range(3)))
    return Attachment(descriptor, run, scheduler, keys)


def test_the_same_versions_are_fine():
    check_versions("etl", attachment(python_version(), HERE))
    check_versions("etl", attachment(f"{python_version()}.99", HERE))


@pytest.mark.parametrize(
    ("python", "packages", "named"),
    [
        ("3.9", HERE, "python: here"),
        (python_version(), {**HERE, "distributed": "2024.1.0"}, "cluster 2024.1.0"),
        (python_version(), {"dask": HERE["dask"]}, "cluster none"),
    ],
)
def test_another_version_is_refused_with_both(python, packages, named):
    with pytest.raises(VersionMismatch) as caught:
        check_versions("etl", attachment(python, packages))
    assert named in str(caught.value)
    assert caught.value.client["python"] == python_version()


def test_no_public_address_says_what_to_do():
    with pytest.raises(InvalidInput, match="use_scheduler_public_ip=False"):
        attachment("3.11", HERE).address(public=True)
    assert attachment("3.11", HERE).address(public=False) == "tls://10.0.0.1:8786"


def test_documents_of_another_format_are_refused():
    with pytest.raises(DocumentFormat, match="terradask apply etl"):
        Descriptor.read({"format": 2, "cluster": "etl", "terradask_version": "9.0"})
    with pytest.raises(DocumentFormat):
        Run.read({"format": 0})


def test_names_are_made_up_and_differ():
    assert parse_name(None) != parse_name(None)
    assert parse_name("etl") == "etl"


def test_a_run_that_somebody_else_started_meanwhile_is_not_ours_to_stop():
    provisioner = Provisioner(Request("etl"), silent)
    deployment = SimpleNamespace(
        name="etl", started_run_id=None, current_run=lambda: None, start=lambda **_: SimpleNamespace(run_id="theirs")
    )
    workspace = SimpleNamespace(settings=Settings(cluster=ClusterSettings(use_scheduler_public_ip=False)))
    settings = {"environ": {}, "software": [], "send_dask_config": True}
    provisioner._start(deployment, settings, workspace)
    assert provisioner._origin == "attached"
    deployment.started_run_id = "theirs"
    provisioner._start(deployment, settings, workspace)
    assert provisioner._origin == "started"


@pytest.mark.parametrize(("error", "origin"), [(StateLocked, "attached"), (StalePlan, "attached"), (TerraformError, "created")])
def test_a_cluster_that_somebody_else_is_making_is_not_ours_to_destroy(error, origin):
    def apply(_plan):
        raise error("refused")

    settings = Settings(cluster=ClusterSettings(use_scheduler_public_ip=False))
    workspace = SimpleNamespace(settings=settings, plan_launch=lambda name: None, apply=apply)
    provisioner = Provisioner(Request("etl"), silent)
    with pytest.raises(error):
        provisioner._deploy(workspace)
    assert provisioner._origin == origin
