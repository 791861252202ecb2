"""The socket of a host's secrets: what its processes get, when, and whose word counts."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from distributed import Scheduler, Worker
from distributed.core import rpc

from terradask._dask.commands import send
from terradask_host import states
from terradask_host.agent.agent import Agent
from terradask_host.agent.child import DaskChild
from terradask_host.agent.event_queue import EventQueue, Failed
from terradask_host.agent.host import next_event
from terradask_host.agent.referenced_secrets import ReferencedSecrets, SecretSocket
from terradask_host.commands import SendSecrets
from terradask_host.errors import SecretUnreadable
from terradask_host.preload import credentials_endpoint
from terradask_host.preload.commands import Commands
from terradask_host.preload.jupyter_server import _with_current_secrets
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


@pytest.mark.locked
async def test_a_new_kernel_starts_with_the_current_value(
    secrets: Rotated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from jupyter_server.services.kernels.kernelmanager import AsyncMappingKernelManager

    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    take_at_start()
    kernels = AsyncMappingKernelManager(root_dir=str(tmp_path))
    _with_current_secrets(kernels)
    secrets.values = {NAME: NEW}
    kernel = await kernels.start_kernel()
    try:
        pid = kernels.get_kernel(kernel).provisioner.pid
        shown = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    finally:
        await kernels.shutdown_kernel(kernel, now=True)
    assert f"{NAME}={NEW}".encode() in shown


@pytest.mark.parametrize(
    ("role", "state", "fails"),
    [
        ("scheduler", states.STARTING, True),
        ("scheduler", states.RUNNING, False),
        ("worker", states.RUNNING, True),
    ],
)
def test_a_process_beside_a_running_scheduler_ends_alone(
    role: str, state: str, fails: bool
) -> None:
    events, log = EventQueue(), list[str]()
    agent: Any = SimpleNamespace(_events=events, _log=SimpleNamespace(error=log.append))
    error = SecretUnreadable("The secret can't be read.")
    given: Any = (SimpleNamespace(role=role), SimpleNamespace(state=state), error)
    Agent._fail(agent, *given)
    event = events.next(0.0)
    assert event == (Failed(error) if fails else None)
    assert log == ([] if fails else ["The secret can't be read."])
    if event is not None:
        events.put(event)
        with pytest.raises(SecretUnreadable):
            next_event(events, cast(DaskChild, None), 0.0)
