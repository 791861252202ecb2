"""An instance that becomes an image: what it removes, what it builds, and what it reports."""

from __future__ import annotations

import hashlib
import io
import json
from pathlib import Path
from typing import Any

import pytest

from terradask_host import image
from terradask_host.config import HostConfig, load_config
from terradask_host.errors import DocumentChanged
from terradask_modules import names

#: Files of one instance, and those that an image keeps.
OF_THE_INSTANCE = (
    "etc/terradask/host.json",
    "etc/systemd/system/terradask-host.service",
    "etc/ssh/ssh_host_ed25519_key",
    "etc/ssh/ssh_host_rsa_key.pub",
    "root/.ssh/authorized_keys",
    "home/ec2-user/.ssh/authorized_keys",
    "root/.bash_history",
    "home/ec2-user/.python_history",
    "var/lib/amazon/ssm/Vault/Store/registration",
    "var/lib/systemd/random-seed",
    "var/lib/terradask/uv-cache/simple/dask",
    "var/lib/terradask/environments/abc-0.lock",
    "var/lib/terradask/environments/abc.wheels/x.whl",
    "opt/terradask/boot.sh",
    "tmp/x",
)
KEPT = (
    "etc/ssh/sshd_config",
    "opt/terradask/venv/terradask.sha256",
    "var/lib/terradask/environments/abc/bin/python",
    "var/lib/terradask/environments/abc.whole",
)


def put(root: Path, *files: str) -> None:
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("of this instance")


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    # cloud-init would clean this computer.
    monkeypatch.setattr(image.shutil, "which", lambda name: None)
    put(tmp_path, *OF_THE_INSTANCE, *KEPT, "var/log/a/b.log", "etc/machine-id")
    return tmp_path


def test_an_image_keeps_nothing_of_its_instance(root: Path) -> None:
    image.clean(root)
    assert [name for name in OF_THE_INSTANCE if (root / name).exists()] == []
    assert [name for name in KEPT if not (root / name).exists()] == []
    assert (root / "var/log/a/b.log").read_text() == ""
    assert (root / "etc/machine-id").read_text() == ""


def test_a_link_is_removed_and_not_followed(root: Path, tmp_path_factory: Any) -> None:
    outside = tmp_path_factory.mktemp("outside")
    put(outside, "kept", "log")
    (root / "tmp/link").symlink_to(outside)
    (root / "var/log/link").symlink_to(outside / "log")
    image.clean(root)
    assert not (root / "tmp/link").is_symlink()
    assert {path.read_text() for path in outside.iterdir()} == {"of this instance"}


def test_names_are_those_of_the_client() -> None:
    assert image.RECIPE_TAG == names.TAG_IMAGE_RECIPE
    assert image.RECIPES == names.IMAGE_RECIPES
    assert image.REPORTS == names.IMAGE_REPORTS


class Bucket:
    """One client of S3 for all buckets."""

    def __init__(self, **objects: bytes) -> None:
        self.objects = objects
        self.put: dict[str, dict[str, Any]] = {}

    def client(self, service: str) -> Bucket:
        assert service == "s3"
        return self

    def get_object(self, **named: str) -> dict[str, Any]:
        return {"Body": io.BytesIO(self.objects[named["Key"]])}

    def put_object(self, **named: Any) -> None:
        self.put[named["Key"]] = json.loads(named["Body"])


class Metadata:
    """A metadata service with these tags."""

    def __init__(self, **tags: str) -> None:
        self.tags = tags

    def get(self, path: str) -> str | None:
        if path == "meta-data/instance-id":
            return "i-7"
        return self.tags.get(path.removeprefix("meta-data/tags/instance/terradask:image:"))


@pytest.fixture
def config(root: Path) -> HostConfig:
    document = {"format": 1, "workspace": "w", "region": "r", "bucket": "b", "log_group": "l"}
    (root / "etc/terradask/host.json").write_text(json.dumps(document))
    return load_config({"TERRADASK_HOST_ROOT": str(root)})


def test_another_recipe_is_not_built(config: HostConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = hashlib.sha256(b"{}").hexdigest()
    bucket = Bucket(**{f"host/images/{asked}.json": b'{"format": 1}'})
    monkeypatch.setattr(image, "Aws", lambda region: bucket)
    with pytest.raises(DocumentChanged, match="is not the one that its instance names"):
        image.build_environment(config, asked)


@pytest.mark.parametrize("exit_code", [0, 1])
def test_the_end_is_reported(
    config: HostConfig, monkeypatch: pytest.MonkeyPatch, exit_code: int
) -> None:
    bucket = Bucket()
    monkeypatch.setattr(image, "Aws", lambda region: bucket)
    monkeypatch.setattr(image.os, "geteuid", lambda: 1000)

    def run(command: list[str], **options: Any) -> Any:
        assert command[-2:] == ["terradask_host.image", "0a"]
        return image.subprocess.CompletedProcess(command, exit_code, stderr="no index\n")

    monkeypatch.setattr(image.subprocess, "run", run)
    image.prepare(config, Metadata(recipe="0a"))  # type: ignore[arg-type]
    (report,) = bucket.put.values()
    assert list(bucket.put) == [f"{image.REPORTS}i-7.json"]
    assert report["state"] == ("failed" if exit_code else "prepared")
    assert report.get("reason") == ("no index" if exit_code else None)
