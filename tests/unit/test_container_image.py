"""An image on a host: fetched, checked and unpacked within its folder."""

from __future__ import annotations

import gzip
import json
import tarfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest

from terradask_host.agent.aws import Aws
from terradask_host.agent.container.layers import LayerInvalid, RootFolder
from terradask_host.agent.container.pull import ImagePull, pull_container
from terradask_host.agent.container.runtime import Container
from terradask_host.agent.event_queue import EventQueue, Stop, StopRequested
from terradask_host.agent.referenced_secrets import RegistryLogin
from terradask_host.config import Paths
from terradask_host.documents import Run
from terradask_host.errors import EnvironmentFailed
from terradask_host.registry import Image, ImageReference, Repository
from terradask_host.timing import Timing

from ..container_registry import ContainerRegistry, digest_of, file, layer, other


def unpacked(root: Path, *layers: bytes) -> RootFolder:
    root.mkdir(exist_ok=True)
    folder = RootFolder(root)
    for number, each in enumerate(layers):
        plain = root.parent / f"{root.name}-{number}.tar"
        plain.write_bytes(gzip.decompress(each))
        with plain.open("rb") as archive:
            folder.unpack(archive)
    return folder


def files(root: Path) -> dict[str, str]:
    return {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.rglob("*"))
        if path.is_file() and not path.is_symlink()
    }


def test_layers_lie_over_each_other_and_hide_what_they_say(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpacked(
        root,
        layer(
            file("etc/a", "1"), file("etc/b", "1"), file("old/deep/x", "1"), file("opaque/x", "1")
        ),
        layer(
            file("etc/a", "2"),
            file("etc/.wh.b"),
            file(".wh.old"),
            file("opaque/y", "2"),
            file("opaque/.wh..wh..opq"),
        ),
    )
    assert files(root) == {"etc/a": "2", "opaque/y": "2"}


def test_kinds_modes_and_times_are_kept_as_far_as_a_user_can(tmp_path: Path) -> None:
    root = tmp_path / "root"
    unpacked(
        root,
        layer(
            other("bin", tarfile.DIRTYPE, mode=0o555),
            file("bin/tool", "x", mode=0o4755),
            file("secret", "x", mode=0o000),
            other("bin/same", tarfile.LNKTYPE, "bin/tool"),
            other("link", tarfile.SYMTYPE, "/bin/tool"),
            other("dev/null", tarfile.CHRTYPE),
            other("pipe", tarfile.FIFOTYPE),
        ),
    )
    assert (root / "bin").stat().st_mode & 0o7777 == 0o755
    assert (root / "bin/tool").stat().st_mode & 0o7777 == 0o755
    assert (root / "secret").stat().st_mode & 0o7777 == 0o600
    assert (root / "bin/tool").stat().st_mtime == 1_700_000_000
    assert (root / "bin/same").stat().st_ino == (root / "bin/tool").stat().st_ino
    assert str((root / "link").readlink()) == "/bin/tool"
    assert not (root / "dev/null").exists()
    assert not (root / "pipe").exists()


@pytest.mark.parametrize(
    "entries",
    [
        [file("../outside", "evil")],
        [file("/../../outside", "evil")],
        [other("door", tarfile.SYMTYPE, ".."), file("door/outside", "evil")],
        [other("door", tarfile.SYMTYPE, "/.."), file("door/outside", "evil")],
        [other("a", tarfile.SYMTYPE, "b"), other("b", tarfile.SYMTYPE, "../.."), file("a/outside")],
        [other("d", tarfile.DIRTYPE), other("d/door", tarfile.SYMTYPE, "../.."), file("d/door/x")],
        [other("door", tarfile.SYMTYPE, ".."), other("door/.wh.kept", tarfile.REGTYPE)],
        [other(".wh...", tarfile.REGTYPE), other("etc/.wh..", tarfile.REGTYPE)],
    ],
)
def test_nothing_of_an_image_gets_out_of_its_folder(
    tmp_path: Path, entries: list[tuple[tarfile.TarInfo, bytes]]
) -> None:
    (tmp_path / "kept").write_text("kept")
    unpacked(tmp_path / "root", layer(*entries))
    assert {path.name for path in tmp_path.iterdir()} == {"kept", "root", "root-0.tar"}
    assert (tmp_path / "kept").read_text() == "kept"


def test_a_hard_link_to_a_link_is_not_the_hosts_file(tmp_path: Path) -> None:
    (tmp_path / "keys").write_text("secret")
    root = tmp_path / "root"
    unpacked(
        root,
        layer(
            other("door", tarfile.SYMTYPE, str(tmp_path / "keys")),
            other("mine", tarfile.LNKTYPE, "door"),
        ),
    )
    assert (root / "mine").is_symlink()
    with pytest.raises(FileNotFoundError):
        unpacked(root, layer(other("mine", tarfile.LNKTYPE, str(tmp_path / "keys"))))


def test_links_in_circles_are_refused(tmp_path: Path) -> None:
    circle = layer(other("a", tarfile.SYMTYPE, "b"), other("b", tarfile.SYMTYPE, "a"), file("a/x"))
    with pytest.raises(LayerInvalid, match="circles"):
        unpacked(tmp_path / "root", circle)


def test_what_is_mounted_has_a_place_of_its_own(tmp_path: Path) -> None:
    root = tmp_path / "root"
    folder = unpacked(
        root,
        layer(
            other("etc/resolv.conf", tarfile.SYMTYPE, "../run/resolv.conf"),
            other("var/run", tarfile.SYMTYPE, "/run"),
            other("tmp", tarfile.SYMTYPE, "/nowhere"),
        ),
    )
    folder.mount_point("etc/resolv.conf", of_file=True)
    folder.mount_point("tmp")
    folder.mount_point("var/lib/terradask")
    assert (root / "etc/resolv.conf").is_file()
    assert not (root / "etc/resolv.conf").is_symlink()
    assert (root / "tmp").is_dir()
    assert not (root / "tmp").is_symlink()
    assert (root / "var/lib/terradask").is_dir()


@pytest.fixture
def registry() -> Iterator[ContainerRegistry]:
    made = ContainerRegistry()
    with made.serving():
        yield made


def pull(
    registry: ContainerRegistry,
    folder: Path,
    digest: str,
    *,
    events: EventQueue | None = None,
    seconds: float = 60.0,
    log: list[str] | None = None,
) -> ImagePull:
    reference = ImageReference.parse(f"{registry.address}/dask@{digest}")
    return ImagePull(
        reference,
        "x86_64",
        folder,
        repository=Repository(reference),
        events=events or EventQueue(),
        log=(log if log is not None else []).append,
        deadline_seconds=seconds,
    )


def test_an_image_is_fetched_once(registry: ContainerRegistry, tmp_path: Path) -> None:
    layers = [layer(file("a", "1")), layer(file("b", "2"), packed=False)]
    digest = registry.push("dask", "1", {"amd64": layers}, environ={"A": "1"}, entry_point=["tini"])
    first = pull(registry, tmp_path / "c", digest)
    image = first.run()
    assert (image.entry_point, image.environ) == (("tini",), {"A": "1"})
    assert {"a", "b", "tmp", "etc/resolv.conf"} <= {
        str(path.relative_to(first.root)) for path in first.root.rglob("*")
    }
    assert {path.name for path in (tmp_path / "c").iterdir()} == {"root", "image.json"}
    asked = len(registry.asked)
    log: list[str] = []
    again = pull(registry, tmp_path / "c", digest, log=log).run()
    assert again == Image((), image.entry_point, image.environ)
    assert len(registry.asked) == asked
    assert "is already unpacked" in log[0]


def test_another_image_takes_the_place_of_the_first(
    registry: ContainerRegistry, tmp_path: Path
) -> None:
    one, two = (
        registry.push("dask", name, {"amd64": [layer(file(name))]}) for name in ("one", "two")
    )
    pull(registry, tmp_path / "c", one).run()
    pull(registry, tmp_path / "c", two).run()
    assert not (tmp_path / "c/root/one").exists()
    assert (tmp_path / "c/root/two").exists()


def test_a_layer_that_breaks_off_is_fetched_again(
    registry: ContainerRegistry, tmp_path: Path
) -> None:
    archive = layer(file("a", "x" * 10_000))
    digest = registry.push("dask", "1", {"amd64": [archive]})
    registry.broken_once.add(digest_of(archive))
    log: list[str] = []
    pull(registry, tmp_path / "c", digest, log=log).run()
    assert any("trying again" in line for line in log)
    assert (tmp_path / "c/root/a").read_text() == "x" * 10_000


def test_a_planted_layer_is_never_unpacked(registry: ContainerRegistry, tmp_path: Path) -> None:
    archive = layer(file("a"))
    digest = registry.push("dask", "1", {"amd64": [archive]})
    registry.blobs[digest_of(archive)] = layer(file("evil"))
    with pytest.raises(EnvironmentFailed, match=r"digest isn.t the manifest") as caught:
        pull(registry, tmp_path / "c", digest).run()
    assert digest in str(caught.value.given)
    assert not (tmp_path / "c/root/evil").exists()
    assert not (tmp_path / "c/image.json").exists()


def test_a_layer_packed_with_zstd_says_what_to_do(
    registry: ContainerRegistry, tmp_path: Path
) -> None:
    digest = registry.push("dask", "1", {"amd64": [b"\x28\xb5\x2f\xfd" + b"x" * 20]})
    with pytest.raises(EnvironmentFailed, match="compression=gzip"):
        pull(registry, tmp_path / "c", digest).run()


@pytest.mark.parametrize(
    "content", [b"no archive" * 100, gzip.compress(b"x" * 999)[:10] + b"\xff" * 99]
)
def test_a_layer_that_is_no_archive_is_said_as_what_hosts_cant_have(
    registry: ContainerRegistry, tmp_path: Path, content: bytes
) -> None:
    digest = registry.push("dask", "1", {"amd64": [content]})
    with pytest.raises(EnvironmentFailed, match="can't be fetched"):
        pull(registry, tmp_path / "c", digest).run()


def test_a_missing_image_is_said_with_the_registrys_answer(
    registry: ContainerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terradask_host.agent.container.pull.FIRST_PAUSE_SECONDS", 0.01)
    with pytest.raises(EnvironmentFailed, match="HTTP status 404"):
        pull(registry, tmp_path / "c", "sha256:" + "0" * 64).run()


def test_a_pull_ends_when_the_host_is_asked_to_stop_and_when_it_takes_too_long(
    registry: ContainerRegistry, tmp_path: Path
) -> None:
    digest = registry.push("dask", "1", {"amd64": [layer(file("a"))]})
    events = EventQueue()
    events.put(Stop("over"))
    with pytest.raises(StopRequested):
        pull(registry, tmp_path / "c", digest, events=events).run()
    with pytest.raises(EnvironmentFailed, match="took over 0 s"):
        pull(registry, tmp_path / "c", digest, seconds=0.0).run()


class Secrets:
    """AWS with one secret."""

    region = "us-east-1"

    def __init__(self, text: str) -> None:
        self.text = text

    def client(self, service: str, region: str) -> Secrets:
        return self

    def get_secret_value(self, **asked: str) -> dict[str, str]:
        assert asked == {"SecretId": LOGIN}
        return {"SecretString": self.text}


LOGIN = "arn:aws:secretsmanager:us-east-1:123456789012:secret:registry-AbCdEf"


def test_a_host_logs_in_with_the_secret_of_its_run(
    registry: ContainerRegistry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("terradask_host.agent.container.pull.FIRST_PAUSE_SECONDS", 0.01)
    digest = registry.push("dask", "1", {"amd64": [layer(file("a", "1"))]})
    registry.users, registry.by_token = {"robot": "old-4711"}, True
    aws = Secrets(json.dumps({"username": "robot", "password": "old-4711"}))
    run = Run(
        *("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2),
        host_roles={"worker": ("arn:aws:iam::123456789012:role/w",)},
        container_credentials=LOGIN,
    )
    timing = Timing(secret_fresh_seconds=0.0)
    login = RegistryLogin.of_run(run, "worker", cast(Aws, aws), timing, print)

    def pulled(name: str) -> Container:
        return pull_container(
            f"{registry.address}/dask@{digest}",
            Paths(tmp_path / name),
            cast(Aws, aws),
            events=EventQueue(),
            log=print,
            deadline_seconds=60.0,
            login=login.username_and_password,
        )

    pulled("first")
    assert (Paths(tmp_path / "first").container / "root/a").read_text() == "1"
    # A rotated password is read by the next pull.
    registry.users["robot"] = "new-4712"
    registry.tokens = {}
    with pytest.raises(EnvironmentFailed, match="refuses the username and the password") as caught:
        pulled("second")
    assert "old-4711" not in str(caught.value)
    aws.text = aws.text.replace("old-4711", "new-4712")
    pulled("second")
    assert not RegistryLogin.of_run(
        replace(run, container_credentials=None), "worker", cast(Aws, aws), timing, print
    )
