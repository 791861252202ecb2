"""The way to a scheduler: which it is, and what it leads to."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from terradask._clusters.attach import Attachment
from terradask._dask import dial as endpoint
from terradask._dask.connectivity import check_route, client_settings
from terradask._dask.dial import AddressEndpoint, SessionEndpoint, endpoint_for
from terradask._observe.documents import Descriptor
from terradask.errors import SchedulerUnreachable, SettingsError, SetupError
from terradask_host.documents import Run, SchedulerAddress
from terradask_host.http_proxy.pipes import to_port
from terradask_host.preload.forward import Forward
from terradask_stacks.settings import ClusterSettings

from ..waiting import HANG_SECONDS


def attachment(instance_id: str = "i-1", port: int = 9000) -> Attachment:
    scheduler = SchedulerAddress(
        "r1",
        instance_id,
        1,
        f"tls://10.64.0.5:{port}",
        f"tls://203.0.113.7:{port}",
        9001,
        "3.11",
        {},
    )
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
    return Attachment(
        Descriptor("default", "etl", "us-east-1", "b", "us-east-1a", {}, 9, "s", {}, {}),
        run,
        scheduler,
        None,
    )  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("settings", "way"),
    [
        ({}, "public"),
        ({"use_scheduler_public_ip": True}, "public"),
        ({"use_scheduler_public_ip": False}, "private"),
        ({"connect": None, "use_scheduler_public_ip": None}, "public"),
        ({"connect": "ssm", "use_scheduler_public_ip": None}, "ssm"),
    ],
)
def test_descriptors_of_any_version_say_a_way(settings: dict[str, Any], way: str) -> None:
    assert ClusterSettings.read(settings).way == way


def test_what_is_said_here_counts_before_what_a_cluster_was_deployed_with() -> None:
    silent = ClusterSettings()
    assert client_settings({}, silent) == set()
    for said in ({"connect": "ssm"}, {"use_scheduler_public_ip": False}):
        asked = ClusterSettings(**said)  # type: ignore[arg-type]
        assert client_settings({"n_workers": 3}, asked) == {
            "n_workers",
            "connect",
            "use_scheduler_public_ip",
        }


def test_addresses_are_the_schedulers_own() -> None:
    public, private = AddressEndpoint("public"), AddressEndpoint("private")
    assert (public.scheduler(attachment()), public.dashboard(attachment())) == (
        "tls://203.0.113.7:9000",
        ("203.0.113.7", 9001),
    )
    assert (private.scheduler(attachment()), private.dashboard(attachment())) == (
        "tls://10.64.0.5:9000",
        ("10.64.0.5", 9001),
    )


class Held:
    """A forwarding that opens at once, or fails."""

    made: ClassVar[list[Held]] = []
    fails = False

    def __init__(self, aws: Any, plugin: Any, *, instance_id: str, port: int) -> None:
        self.instance_id, self.port, self.state = instance_id, port, "new"
        self.made.append(self)

    def open(self) -> None:
        self.state = "open"

    def wait(self, seconds: float) -> int:
        if self.fails:
            raise SchedulerUnreachable("no agent", address="i-1:9000")
        return self.port + 40_000

    def close(self) -> None:
        self.state = "closed"


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Held]:
    found: list[Held] = []
    monkeypatch.setattr(Held, "made", found)
    monkeypatch.setattr(Held, "fails", False)
    monkeypatch.setattr(endpoint, "PortForwarding", Held)
    monkeypatch.setattr(endpoint, "find_plugin", lambda: "plugin")
    return found


def test_sessions_lead_to_both_ports_of_the_host_that_there_is(made: list[Held]) -> None:
    way = endpoint_for("ssm", SimpleNamespace())  # type: ignore[arg-type]
    assert isinstance(way, SessionEndpoint)
    assert way.scheduler(attachment()) == "tls://127.0.0.1:49000"
    assert way.dashboard(attachment()) == ("127.0.0.1", 49001)
    assert [(each.instance_id, each.port, each.state) for each in made] == [
        ("i-1", 9000, "open"),
        ("i-1", 9001, "open"),
    ]
    # The scheduler has another host.
    assert way.scheduler(attachment("i-2")) == "tls://127.0.0.1:49000"
    assert [each.state for each in made] == ["closed", "closed", "open", "open"]
    way.close()
    assert {each.state for each in made} == {"closed"}
    with pytest.raises(ConnectionAbortedError):
        way.scheduler(attachment("i-2"))
    assert len(made) == 4


def test_what_failed_is_begun_anew(made: list[Held], monkeypatch: pytest.MonkeyPatch) -> None:
    way = SessionEndpoint(SimpleNamespace())  # type: ignore[arg-type]
    monkeypatch.setattr(Held, "fails", True)
    with pytest.raises(SchedulerUnreachable, match="no agent"):
        way.scheduler(attachment())
    assert [each.state for each in made] == ["closed", "closed"]
    monkeypatch.setattr(Held, "fails", False)
    assert way.scheduler(attachment()) == "tls://127.0.0.1:49000"
    way.close()


def test_sessions_take_a_network_and_a_machine_that_have_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = ClusterSettings(connect="ssm")

    def workspace(session_manager: bool) -> Any:
        return SimpleNamespace(
            baseline=lambda: SimpleNamespace(
                isolation="workspace", ingress=[], session_manager=session_manager
            )
        )

    with pytest.raises(SettingsError, match="session_manager = true"):
        check_route(workspace(False), settings)
    monkeypatch.setattr("terradask._aws.ssm.plugin._USUAL_FOLDERS", ())
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SetupError, match="isn't on this machine"):
        check_route(workspace(True), settings)


def test_a_hosts_loopback_passes_on_what_comes_as_it_comes() -> None:
    async def main() -> bytes:
        async def upper(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write((await reader.read()).upper())
            writer.close()

        async with await asyncio.start_server(upper, "127.0.0.1", 0) as server:
            target = server.sockets[0].getsockname()[1]
            async with await asyncio.start_server(upper, "127.0.0.1", 0) as free:
                port = free.sockets[0].getsockname()[1]
            inner = Forward("127.0.0.1", port, dial=to_port("127.0.0.1", target), context=None)
            await inner.start()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            writer.write(b"\x16\x03 tls, or anything")
            writer.write_eof()
            answer = await reader.read()
            writer.close()
            await writer.wait_closed()
            await inner.close()
            return answer

    assert asyncio.run(asyncio.wait_for(main(), HANG_SECONDS)) == b"\x16\x03 TLS, OR ANYTHING"
