"""How many calls to AWS follow one another when a cluster is started, attached to, and stopped: on
a line of 100 ms each takes that long. More rounds need a reason.
"""

from __future__ import annotations

from collections.abc import Iterator

import boto3
import pytest

from terradask import Deployment, Workspace
from terradask._common.progress import silent
from terradask._dask.provision import Provisioner
from terradask._dask.request import Request
from terradask.errors import InvalidCredentials
from terradask_simulator.aws.backend import ACCOUNT

from ..rounds import counted_rounds

pytestmark = [pytest.mark.simulator]


@pytest.fixture
def deployment(sim_environ: dict[str, str]) -> Iterator[Deployment]:
    """A cluster that is deployed, and stopped."""
    workspace = Workspace.load()
    yield workspace.apply(workspace.plan_cluster("far", max_workers=3))
    workspace.destroy_cluster("far")


def test_a_start_an_attachment_and_a_stop(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What deployed the cluster has seen the access key, so its account is known.
    with counted_rounds(monkeypatch) as start:
        started = Provisioner(Request("far", {"n_workers": 1}), silent).run()
    with counted_rounds(monkeypatch) as attach:
        Provisioner(Request("far"), silent).run()
    with counted_rounds(monkeypatch) as stop:
        started.deployment.stop_run(started.attachment.run)
    assert deployment.run() is None
    # One more here than in a bucket that is older than 15 minutes: what isn't there is listed too.
    assert start.of("SetDesiredCapacity") <= 7
    # All that there is to read, beside the caller's identity.
    assert attach.longest <= 1
    assert len(attach.calls) <= 8
    # What is, what ends it, what is kept of it, and last what says that there is something to end.
    assert stop.of("SetDesiredCapacity") <= 2
    assert stop.longest <= 4
    # Its connection is a new one, mostly: before it is known which hosts there were.
    assert stop.of("GetProducts") <= 1
    # Two more where the worker's host has reported.
    assert len(stop.calls) <= 30


def test_nothing_is_found_in_an_account_that_aws_does_not_name(
    sim_environ: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = boto3.Session().get_credentials()
    assert keys is not None
    # botocore takes the account from there only with the keys.
    for name, value in (
        ("AWS_ACCESS_KEY_ID", keys.access_key),
        ("AWS_SECRET_ACCESS_KEY", keys.secret_key),
        ("AWS_ACCOUNT_ID", "210987654321"),
    ):
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidCredentials, match=f"{ACCOUNT}; expected was 210987654321"):
        Provisioner(Request("other", attach=True), silent).run()
