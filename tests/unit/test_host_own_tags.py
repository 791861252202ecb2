"""A host gives its instance's tags to its volumes and interfaces, whatever goes wrong at first."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError

from terradask_host.agent.own_tags import CONTROLLERS, TRIES, OwnTags, volume_ids

from ..waiting import HANG_SECONDS

FACTS = {
    "meta-data/tags/instance": "Name\naws:autoscaling:groupName\nterradask:group\nteam",
    "meta-data/tags/instance/Name": "terradask-default-worker",
    "meta-data/tags/instance/terradask:group": "workers",
    "meta-data/tags/instance/team": "",
    "meta-data/network/interfaces/macs/": "0e:01/\n0e:02/",
    "meta-data/network/interfaces/macs/0e:01/interface-id": "eni-1",
    "meta-data/network/interfaces/macs/0e:02/interface-id": "eni-2",
}
PARTS = ["vol-0a1b2c3d4e5f60718", "eni-1", "eni-2"]
REFUSED = ClientError(
    {"Error": {"Code": "UnauthorizedOperation", "Message": "You are not authorized"}}, "CreateTags"
)


@dataclass
class _RefusingEc2:
    """Refuses so many times."""

    refusals: int = 0
    calls: list[dict[str, Any]] = field(default_factory=list)

    def client(self, service: str) -> _RefusingEc2:
        assert service == "ec2"
        return self

    def create_tags(self, **arguments: Any) -> None:
        self.calls.append(arguments)
        if len(self.calls) <= self.refusals:
            raise REFUSED


@dataclass
class _Metadata:
    facts: dict[str, str]

    def get(self, path: str) -> str | None:
        return self.facts.get(path)


def controller(root: Path, number: int, model: str, serial: str) -> None:
    folder = root / CONTROLLERS / f"nvme{number}"
    folder.mkdir(parents=True)
    (folder / "model").write_text(f"{model:40}\n")
    (folder / "serial").write_text(f"{serial}\n")


def tag(root: Path, ec2: _RefusingEc2, instance_id: str = "i-1") -> tuple[list[str], list[str]]:
    lines: list[str] = []
    reported: list[str] = []
    tags = OwnTags(
        ec2,  # type: ignore[arg-type]
        _Metadata(FACTS),  # type: ignore[arg-type]
        instance_id,
        root,
        root / "state" / "tagged",
        log=lines.append,
        report=reported.append,
        first_pause_seconds=0.0,
    )
    tags.start()
    tags.join(HANG_SECONDS)
    return lines, reported


@pytest.fixture
def root(tmp_path: Path) -> Path:
    controller(tmp_path, 0, "Amazon Elastic Block Store", "vol0a1b2c3d4e5f60718")
    controller(tmp_path, 1, "Amazon EC2 NVMe Instance Storage", "AWS2A1735D0D7D8D2D87")
    return tmp_path


def test_volumes_and_interfaces_get_the_instances_tags_once(root: Path) -> None:
    ec2 = _RefusingEc2()

    assert tag(root, ec2)[1] == []
    # The program that systemd starts again doesn't ask a second time.
    assert tag(root, ec2)[1] == []

    tags = [{"Key": "team", "Value": ""}, {"Key": "terradask:group", "Value": "workers"}]
    assert ec2.calls == [{"Resources": PARTS, "Tags": tags}]


def test_an_image_of_a_host_makes_another_instance(root: Path) -> None:
    ec2 = _RefusingEc2()
    tag(root, ec2)
    tag(root, ec2, "i-2")
    assert len(ec2.calls) == 2


def test_a_refusal_is_logged_and_tried_again(root: Path) -> None:
    ec2 = _RefusingEc2(refusals=2)
    lines, reported = tag(root, ec2)
    assert len(ec2.calls) == 3
    assert sum("not authorized" in line for line in lines) == 2
    assert reported == []


def test_what_stays_refused_is_reported_with_awss_words(root: Path) -> None:
    ec2 = _RefusingEc2(refusals=TRIES)
    _, (reported,) = tag(root, ec2)
    assert len(ec2.calls) == TRIES
    assert "disks and interfaces" in reported
    assert "not authorized" in reported


def test_a_machine_without_nvme_has_its_interfaces_tagged(tmp_path: Path) -> None:
    ec2 = _RefusingEc2()
    lines, _ = tag(tmp_path, ec2)
    assert volume_ids(tmp_path / CONTROLLERS) == []
    assert ec2.calls[0]["Resources"] == PARTS[1:]
    assert any("volumes" in line for line in lines)
