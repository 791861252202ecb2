"""Another account makes the bucket that a workspace is to have, before its network is applied."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import pytest

from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask.errors import AccessDenied
from terradask_host.agent.aws import Aws as HostAws
from terradask_host.agent.objects import ClusterObjects
from terradask_modules.caller_policies import CALLERS, CallerScope, caller_statements
from terradask_modules.names import ROLES, bucket_name
from terradask_modules.policies import PolicyScope, host_statements
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..simulator.acting import Account, refused

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
    for found in s3.list_objects_v2(Bucket=BUCKET)["Contents"]:
        s3.delete_object(Bucket=BUCKET, Key=found["Key"])
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


@pytest.mark.usefixtures("taken")
@pytest.mark.parametrize("who", [*ROLES, *CALLERS])
def test_rights_end_at_it(sim: Simulator, who: str) -> None:
    """Terraform names no expected owner."""
    place = PolicyScope(
        where=Where(partition="aws", region="us-east-1", account=VICTIM, workspace="default")
    )
    statements = [
        one
        for one in (
            host_statements(place, who)
            if who in ROLES
            else caller_statements(CallerScope(hosts=place), who)
        )
        if BUCKET in json.dumps(one["Resource"])
    ]
    assert allowed(sim, statements) == set()
    for one in statements:
        del one["Condition"]
    assert {"list", "read"} <= allowed(sim, statements)


def allowed(sim: Simulator, statements: list[dict[str, Any]]) -> set[str]:
    """Return what a caller may do there who names no expected owner."""
    policy = {"Version": "2012-10-17", "Statement": statements}
    environ = sim.environ_of("caller", policy)
    with contextlib.ExitStack() as clients:
        s3 = Account(sim, environ, clients).client("s3")
        documents = ("workspace.json", "clusters/etl/run.json")
        written = ("clusters/etl/terraform.tfstate", "clusters/etl/hosts/i-1.json")
        return {
            *(["list"] if not refused(s3.list_objects_v2, Bucket=BUCKET) else []),
            *("read" for key in documents if not refused(s3.get_object, Bucket=BUCKET, Key=key)),
            *("write" for key in written if not refused(s3.put_object, Bucket=BUCKET, Key=key)),
        }
