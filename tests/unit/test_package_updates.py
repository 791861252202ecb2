"""A client sends packages that have changed since the start, and those alone."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.metadata
import io
import zipfile
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._common.progress import Message
from terradask._dask.package_updates import PackageUpdates
from terradask._software import local_wheels
from terradask._software.local_wheels import LocalWheel
from terradask.errors import DocumentChanged, HostFailed, SoftwareUnusable
from terradask_host.commands import UpdatePackages
from terradask_host.documents import sha256_of


def packed(body: str, *needs: str) -> bytes:
    """Return a wheel with one module, and a template that is none."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as wheel:
        wheel.writestr("acme/__init__.py", body)
        wheel.writestr("acme/old_one.py", "print 'of Python 2'\n")
        wheel.writestr("acme/{{ name }}/template.py", "{{ what }} = = 1\n")
        lines = "".join(f"Requires-Dist: {need}\n" for need in needs)
        wheel.writestr("acme-1.0.dist-info/METADATA", f"Name: acme\nVersion: 1.0\n{lines}")
    return made.getvalue()


FIRST, EDITED = packed("X = 1\n"), packed("X = 2\n")


def _key(content: bytes, name: str) -> str:
    return f"wheels/{hashlib.sha256(content).hexdigest()}/{name}-1.0-py3-none-any.whl"


LOCK = (
    f"acme @ {_key(FIRST, 'acme')}\nother @ {_key(b'other', 'other')}\n"
    "dask==2026.1.1 --hash=sha256:00\n"
).encode()


class Cluster:
    """A running cluster that keeps what it is sent, and folders that can be edited."""

    def __init__(self) -> None:
        self.sent: list[dict[str, bytes]] = []
        self.answer: dict[str, Any] = {"failed": {}, "lost": [], "restarted": 2}
        self.folders = {"acme": FIRST, "other": b"other"}
        self.lock = LOCK
        self.progress: list[str] = []
        keys = SimpleNamespace(sha256={"software.lock": sha256_of(LOCK)})
        connection = SimpleNamespace(
            health=SimpleNamespace(name="etl"),
            attachment=SimpleNamespace(keys=keys),
            send=self._send,
        )
        deployment = SimpleNamespace(
            descriptor=SimpleNamespace(architecture="x86_64"),
            objects=SimpleNamespace(read_bytes=self._read),
        )
        self._updates = PackageUpdates(
            cast(Any, deployment), cast(Any, connection), cast(Any, self._call), self._note
        )

    def _read(self, name: str) -> bytes:
        return self.lock if name == "software.lock" else {_key(FIRST, "acme"): FIRST}[name]

    async def _call(self, function: Callable[[], Any]) -> Any:
        return function()

    async def _send(self, command: UpdatePackages) -> Any:
        self.sent.append(dict(command.wheels))
        return self.answer

    def sync(self) -> list[str]:
        return asyncio.run(self._updates.sync_software())

    def _note(self, event: object) -> None:
        assert isinstance(event, Message)
        self.progress.append(event.text)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    made = Cluster()

    def build(name: str, architecture: str, environ: object) -> LocalWheel:
        assert architecture == "x86_64"
        return LocalWheel(name, "1.0", f"{name}-1.0-py3-none-any.whl", made.folders[name])

    monkeypatch.setattr(local_wheels, "build_wheel", build)
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: name)
    return made


def test_what_has_changed_is_sent_once(cluster: Cluster) -> None:
    assert cluster.sync() == []
    cluster.folders["acme"] = EDITED
    assert cluster.sync() == ["acme"]
    assert cluster.sent == [{"acme-1.0-py3-none-any.whl": EDITED}]
    assert cluster.progress == ["etl: sending acme, and restarting workers"]
    assert cluster.sync() == []
    # Back to what the run was started with, which hosts don't have any more.
    cluster.folders["acme"] = FIRST
    assert cluster.sync() == ["acme"]


def test_what_a_host_could_not_install_is_sent_again(cluster: Cluster) -> None:
    cluster.folders["acme"] = EDITED
    cluster.answer = {"failed": {"tls://10.0.0.5:1": "no room"}, "lost": [], "restarted": 0}
    with pytest.raises(HostFailed, match="no room") as caught:
        cluster.sync()
    assert caught.value.reason == "tls://10.0.0.5:1: no room"
    cluster.answer = {"failed": {}, "lost": [], "restarted": 2}
    assert cluster.sync() == ["acme"]


def test_lost_results_are_a_warning(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    cluster.folders["acme"] = EDITED
    cluster.answer["lost"] = ["i-1", "i-2"]
    cluster.sync()
    assert "results of i-1, i-2 didn't fit on other workers" in caplog.text


def test_a_lock_that_others_have_changed_is_refused(cluster: Cluster) -> None:
    cluster.lock = LOCK.replace(b"other", b"another")
    with pytest.raises(DocumentChanged, match=r"software\.lock"):
        cluster.sync()
    assert not cluster.sent


def test_a_mistake_in_a_module_is_not_sent(cluster: Cluster) -> None:
    cluster.folders["acme"] = packed("X = 1\nY = = 2\n")
    with pytest.raises(SoftwareUnusable, match=r"acme/__init__\.py, line 2: invalid syntax"):
        cluster.sync()
    assert not cluster.sent
    cluster.folders["acme"] = packed("X = 1\nY = 2\n")
    assert cluster.sync() == ["acme"]


def test_a_new_need_that_hosts_do_not_have_is_a_warning(
    cluster: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    needs = (
        "dask",
        "other",
        "wheel>=0.4",
        "colorama; sys_platform == 'win32'",
        "lz4; extra == 'x'",
    )
    cluster.folders["acme"] = packed("X = 2\n", *needs)
    assert cluster.sync() == ["acme"]
    assert "acme needs wheel, which the run was started without" in caplog.text
    cluster.folders["acme"] = packed("X = 3\n", "dask")
    caplog.clear()
    cluster.sync()
    assert not caplog.text
