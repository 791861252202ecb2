"""A running cluster in trouble: AWS doesn't answer its hosts, S3 is unavailable, a disk is full, a
role may not end its cluster. Results stay right, nothing is replaced, and what was under way goes
on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from terradask_simulator.hosts.faults import fill_disk

from ...waiting import HANG_SECONDS, eventually
from .account import Account
from .cluster import Cluster
from .endpoint import DENIED, SLOW_DOWN, Endpoint
from .processes import children

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: What has a full disk is found among the host program's children.
FRESH_DASK = True


@pytest.fixture(scope="module")
def endpoint(account: Account) -> Iterator[Endpoint]:
    endpoint = Endpoint(account.endpoint)
    yield endpoint
    endpoint.close()


@pytest.fixture(scope="module")
def troubled(
    account: Account, endpoint: Endpoint, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Cluster]:
    """A scheduler and two workers whose way to AWS leads through the endpoint."""
    cluster = Cluster(account, tmp_path_factory.mktemp("trouble"), "trouble", workers=3)
    ways = {"endpoints": {"AWS_ENDPOINT_URL": endpoint.url}}
    try:
        cluster.scheduler(
            **ways,
            timing={
                "join_poll_seconds": 0.3,
                "watchdog_move_seconds": 1.0,
                "join_seconds": 600.0,
                "dask_restart_pause_seconds": 0.1,
            },
        )
        for number in (0, 1):
            cluster.worker(number, **ways)
        for host in cluster.hosts:
            host.wait_state("running")
        yield cluster
    finally:
        endpoint.cut, endpoint.answer = False, None
        cluster.close()


def test_hosts_that_aws_does_not_answer_go_on_and_are_not_replaced(
    troubled: Cluster, endpoint: Endpoint
) -> None:
    group = troubled.groups["workers"]
    members = {each["InstanceId"] for each in troubled.account.describe(group)["Instances"]}
    with troubled.client() as client:
        client.wait_for_workers(2, timeout=HANG_SECONDS)
        refused, endpoint.cut = endpoint.refused, True
        done = client.map(lambda n: n + 1, range(200), pure=False)
        assert client.gather(done) == list(range(1, 201))
        # Both of what the scheduler's host looks after have failed meanwhile.
        eventually(lambda: endpoint.refused > refused + 3)
        endpoint.cut = False
        assert client.submit(sum, [1, 2], pure=False).result(HANG_SECONDS) == 3
    assert [host.process.poll() for host in troubled.hosts] == [None] * 3
    now = {each["InstanceId"] for each in troubled.account.describe(group)["Instances"]}
    assert now == members


def test_a_host_that_boots_while_s3_is_unavailable_joins_when_it_is_back(
    troubled: Cluster, endpoint: Endpoint
) -> None:
    endpoint.answer = 503, SLOW_DOWN
    refused = endpoint.refused
    host = troubled.worker(2, endpoints={"AWS_ENDPOINT_URL_S3": endpoint.url})
    try:
        eventually(lambda: endpoint.refused > refused + 8, explain=lambda: host.log)
        assert host.process.poll() is None
    finally:
        endpoint.answer = None
    host.wait_state("running")
    assert "failed" not in host.states()
    with troubled.client() as client:
        client.wait_for_workers(3, timeout=HANG_SECONDS)


def test_a_full_disk_fails_the_task_that_writes_alone(troubled: Cluster, tmp_path: Path) -> None:
    # By value: hosts have no tests.
    def write(folder: str) -> int:
        return Path(folder, "large").write_bytes(bytes(2 * 1024**2))

    full, whole = troubled.hosts[1], troubled.hosts[2]
    pid = full.dask_pid()
    fill_disk([pid, *children(pid)])
    with troubled.client() as client:
        client.wait_for_workers(2, timeout=HANG_SECONDS)
        with pytest.raises(OSError, match="File too large"):
            client.submit(write, str(tmp_path), workers=[full.instance_id], pure=False).result(
                HANG_SECONDS
            )
        there = client.submit(write, str(tmp_path), workers=[whole.instance_id], pure=False)
        assert there.result(HANG_SECONDS) == 2 * 1024**2
        done = client.map(lambda n: n + 1, range(100), pure=False)
        assert client.gather(done) == list(range(1, 101))


def test_a_cluster_whose_groups_aws_leaves_alone_says_so_when_it_is_over(
    lonely: Callable[..., Cluster], account: Account
) -> None:
    refusing = Endpoint(account.endpoint)
    refusing.answer = 400, DENIED
    try:
        cluster = lonely(workers=1)
        cluster.start(
            life={"idle_timeout_seconds": 1.0, "idle_timeout_yields": False},
        )
        scheduler = cluster.scheduler(
            timing={"life_poll_seconds": 0.2, "first_client_seconds": 0.0},
            endpoints={"AWS_ENDPOINT_URL_AUTO_SCALING": refusing.url},
        )
        assert scheduler.wait_exit() == 0
    finally:
        refusing.close()
    assert cluster.desired("workers") == 1
    report = scheduler.report()
    assert report["state"] == "left"
    (note,) = [note for note in report["notes"] if note[2] == "kept"]
    assert "the watchdog schedule does so" in note[3]
