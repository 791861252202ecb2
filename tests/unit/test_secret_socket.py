"""The socket of a host's secrets: what its processes get, when, and whose word counts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest
from distributed import Scheduler, Worker
from distributed.core import rpc

from terradask._dask.commands import send
from terradask_host.agent.referenced_secrets import ReferencedSecrets
from terradask_host.agent.secret_socket import SecretSocket
from terradask_host.commands import SendSecrets
from terradask_host.errors import SecretUnreadable
from terradask_host.preload import credentials_endpoint
from terradask_host.preload.commands import Commands
from terradask_host.preload.referenced_secrets import VARIABLE, take_again, take_at_start
from terradask_host.preload.secret_store import SecretStore

from .running_jobs import running

NAME, OLD, NEW = "TEAM_PASSWORD", "old-4711", "new-4712"


@dataclass
class Rotated:
    """Secrets whose values change, or can't be read."""

    values: dict[str, str] = field(default_factory=lambda: {NAME: OLD})
    problem: str | None = None
    failures: list[str] = field(default_factory=list)

    def read(self) -> Mapping[str, str]:
        if self.problem is not None:
            raise SecretUnreadable(self.problem)
        return self.values


@pytest.fixture
def secrets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Rotated]:
    """Secrets at a socket, whose path is longer than an address may be."""
    rotated = Rotated()
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    path = folder / "secrets.sock"
    socket = SecretSocket(
        path, cast(ReferencedSecrets, rotated), lambda error: rotated.failures.append(str(error))
    )
    monkeypatch.setenv(VARIABLE, str(path))
    # What is set later goes again.
    monkeypatch.setenv(NAME, "")
    monkeypatch.setattr(credentials_endpoint, "SENT", set())
    monkeypatch.setattr("terradask_host.preload.referenced_secrets.SENT", credentials_endpoint.SENT)
    take_at_start.cache_clear()
    yield rotated
    take_at_start.cache_clear()
    socket.close()
    assert not path.exists()


def test_only_its_user_can_connect(secrets: Rotated) -> None:
    mode = Path(os.environ[VARIABLE]).stat().st_mode
    assert (stat.S_ISSOCK(mode), stat.S_IMODE(mode)) == (True, 0o600)


def test_a_process_takes_them_at_its_start_and_again_when_it_starts_another(
    secrets: Rotated,
) -> None:
    take_at_start()
    assert os.environ[NAME] == OLD
    secrets.values = {NAME: NEW}
    take_at_start()
    assert os.environ[NAME] == OLD
    take_again()
    assert os.environ[NAME] == NEW


def test_without_them_a_process_does_not_start_and_the_host_fails(secrets: Rotated) -> None:
    secrets.problem = "The secret can't be read."
    with pytest.raises(SecretUnreadable, match="can't be read"):
        take_again()
    assert secrets.failures == []
    for number in (1, 2):
        with pytest.raises(SecretUnreadable, match="can't be read"):
            take_at_start()
        assert secrets.failures == [secrets.problem] * number


def test_a_run_without_secrets_has_no_socket(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    take_again()


async def test_workers_have_them_and_a_clients_word_counts(secrets: Rotated) -> None:
    async with Scheduler(
        host="127.0.0.1", port=0, dashboard=False, dashboard_address=":0"
    ) as scheduler:
        store = SecretStore(scheduler)
        Commands(scheduler, {SendSecrets: store.take})
        options: dict[str, Any] = {"nthreads": 1, "dashboard": False, "dashboard_address": ":0"}
        async with Worker(scheduler.address, **options), rpc(scheduler.address) as remote:
            assert os.environ[NAME] == OLD
            await send(remote, "etl", SendSecrets(environ={NAME: "sent"}))
            assert os.environ[NAME] == "sent"
            secrets.values = {NAME: NEW}
            take_again()
            assert os.environ[NAME] == "sent"


async def test_a_new_job_gets_the_current_value_and_its_own_variables_count(
    secrets: Rotated,
) -> None:
    async with running() as found:
        command, outputs = ["sh", "-c", f'echo "<${NAME}>"'], []
        for value, environ in ((OLD, {}), (NEW, {}), (NEW, {NAME: "own"})):
            secrets.values = {NAME: value}
            job = await found.submit(command, environ=environ)
            assert await found.over(job) == 0
            outputs.append(await found.output(job))
        assert outputs == [(f"<{each}>\n".encode(), b"") for each in (OLD, NEW, "own")]
        secrets.problem = "The secret can't be read."
        job = await found.submit(command)
        assert await found.over(job) != 0
        (task,) = await found.tasks(job)
        assert task["why"] == ("it could not be run: SecretUnreadable: The secret can't be read.")
    assert secrets.failures == []
