"""The host program as real processes: AWS is moto behind a real endpoint, Dask and TLS are real,
metadata comes from a small server.

A running cluster costs seconds: a module that uses one shares it between its tests, and a test that
ends a host starts one of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.forking import ForkServer
from tests.moto_account import moto_server

from .account import Account
from .authority import RUN_ID
from .cluster import Cluster


@pytest.fixture(scope="module")
def account(
    fork_servers: tuple[ForkServer, ForkServer], request: pytest.FixtureRequest
) -> Iterator[Account]:
    _, hosts = fork_servers
    fresh = getattr(request.module, "FRESH_DASK", False)
    with moto_server() as endpoint:
        account = Account(endpoint, hosts.address, forks_dask=not fresh)
        yield account
        account.close()


@pytest.fixture
def fresh_dask(account: Account, monkeypatch: pytest.MonkeyPatch) -> None:
    """Have Dask's processes start from nothing, as children of the host program: for tests that
    look at them.
    """
    monkeypatch.setattr(account, "forks_dask", False)


@pytest.fixture(scope="module")
def cluster(account: Account, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers; the workers boot before their scheduler, and find a damaged
    ``scheduler.json``.
    """
    cluster = Cluster(account, tmp_path_factory.mktemp("hosts"), "etl", workers=5)
    cluster.put("scheduler.json", {"format": 1, "run_id": RUN_ID})
    try:
        for worker in [cluster.worker(0), cluster.worker(1)]:
            worker.wait_state("waiting")
        cluster.scheduler()
        for host in cluster.hosts:
            host.wait_state("running")
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def lonely(
    account: Account, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Cluster]]:
    """Makes clusters for tests that end them."""
    made: list[Cluster] = []

    def make(**descriptor: Any) -> Cluster:
        name = f"{request.node.name.removeprefix('test_').replace('_', '-')[:25]}-{len(made)}"
        made.append(Cluster(account, tmp_path, name, **descriptor))
        return made[-1]

    yield make
    for cluster in made:
        cluster.close()
