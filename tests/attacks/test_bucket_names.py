"""Another account makes the bucket that a workspace is to have, before its network is applied."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask.errors import AccessDenied
from terradask_host.agent.aws import Aws as HostAws
from terradask_host.agent.objects import ClusterObjects
from terradask_modules.names import bucket_name
from terradask_simulator import Simulator

pytestmark = [pytest.mark.simulator]

#: In the embedded AWS every bucket is account 123456789012's: here that is the attacker.
VICTIM = "210987654321"
BUCKET = bucket_name("default", VICTIM, "us-east-1")


@pytest.fixture
def taken(sim_environ: dict[str, str], sim: Simulator) -> Iterator[None]:
    s3 = sim.client("s3")
    s3.create_bucket(Bucket=BUCKET)
    keys = ("workspace.json", "clusters/etl/run.json")
    for key in keys:
        s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps({"format": 1}).encode())
    yield
    for key in keys:
        s3.delete_object(Bucket=BUCKET, Key=key)
    s3.delete_bucket(Bucket=BUCKET)
    s3.close()


@pytest.mark.usefixtures("taken")
def test_nothing_is_read_from_it_or_written_to_it(sim: Simulator) -> None:
    store = ObjectStore(Aws("us-east-1"), BUCKET)
    for call in (
        lambda: store.read("workspace.json"),
        lambda: store.write("clusters/etl/cluster.json", b"{}"),
        lambda: store.claim("clusters/etl/run.json", b"{}"),
        lambda: list(store.names()),
        lambda: store.delete_all(["workspace.json"]),
    ):
        with pytest.raises(AccessDenied):
            call()
    host = ClusterObjects(HostAws("us-east-1"), BUCKET, "etl")
    with pytest.raises(Exception, match="AccessDenied"):
        host.read("run.json")
    found = sim.client("s3").list_objects_v2(Bucket=BUCKET)["Contents"]
    assert [one["Key"] for one in found] == ["clusters/etl/run.json", "workspace.json"]
