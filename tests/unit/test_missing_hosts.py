"""Reports of missing hosts can be read a few at a time, and are read again only when they have
changed.
"""

from __future__ import annotations

from typing import Any

from terradask._observe.status import HostReports
from terradask_host.documents import HostReport


class Objects:
    """Reports in memory, with what was read of them."""

    def __init__(self, hosts: int) -> None:
        self.states = {f"i-{number}": "booting" for number in range(hosts)}
        self.run_ids = dict.fromkeys(self.states, "r1")
        self.read: list[str] = []

    def host_versions(self) -> dict[str, str]:
        return {host: f'"{state}"' for host, state in self.states.items()}

    def read_all(self, names: list[str]) -> list[dict[str, Any] | None]:
        hosts = [name.removeprefix("hosts/").removesuffix(".json") for name in names]
        self.read += hosts
        fields = {
            "role": "worker",
            "group": "workers",
            "reason": None,
            "at": "2026-11-20T05:15:00Z",
        }
        return [
            {
                "instance_id": host,
                "state": self.states[host],
                "run_id": self.run_ids[host],
                **fields,
            }
            if host in self.states
            else None
            for host in hosts
        ]


def look(hosts: HostReports, joined: set[str]) -> list[HostReport]:
    for host in hosts.list_changed(joined)[:4]:
        hosts.read([host])
    return hosts.reports


def test_looks_that_read_a_few_read_in_time_all() -> None:
    objects = Objects(1000)
    hosts = HostReports(objects, "r1")  # type: ignore[arg-type]
    joined = {f"i-{number}" for number in range(10, 1000)}
    assert [len(look(hosts, joined)) for _ in range(3)] == [4, 8, 10]
    assert sorted(objects.read) == [f"i-{number}" for number in range(10)]


def test_what_has_changed_is_read_again_after_what_is_new() -> None:
    objects = Objects(4)
    hosts = HostReports(objects, "r1")  # type: ignore[arg-type]
    look(hosts, set())
    objects.read.clear()
    objects.states |= {"i-0": "failed", "i-4": "booting", "i-5": "booting"}
    objects.run_ids |= {"i-4": "r1", "i-5": "r0"}
    states = {report.instance_id: report.state for report in look(hosts, set())}
    assert objects.read == ["i-4", "i-5", "i-0"]
    assert states == {f"i-{number}": "booting" for number in range(1, 5)} | {"i-0": "failed"}
    del objects.states["i-1"]
    assert "i-1" not in {report.instance_id for report in look(hosts, set())}


def test_an_error_may_ask_for_everything() -> None:
    hosts = HostReports(Objects(100), "r1")  # type: ignore[arg-type]
    hosts.read(hosts.list_changed(set()))
    assert len(hosts.reports) == 100
