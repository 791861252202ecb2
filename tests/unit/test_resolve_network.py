"""The network's locked answers: what AWS says once, and what stays. moto answers in
this process.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto.ec2.models import ec2_backends
from moto.ssm.models import SimpleSystemManagerBackend

from terradask._aws.session import Aws
from terradask._synthesis.images import GPU_IMAGE_PARAMETER, check_gpu_disks, check_own_disks
from terradask._synthesis.resolve_network import resolve_network
from terradask.errors import InvalidInput, SettingsError, StateConflict
from terradask_stacks.lock import ClusterLock, NetworkLock
from terradask_stacks.settings import Settings

from ..moto_account import moto_account

ZONES = ["us-east-1a", "us-east-1b", "us-east-1c", "us-east-1d", "us-east-1e", "us-east-1f"]


@pytest.fixture(autouse=True)
def _moto() -> Iterator[None]:
    with moto_account(images=True):
        yield


@pytest.fixture
def aws() -> Aws:
    return Aws("us-east-1")


def _settings(**sections) -> Settings:
    return Settings.model_validate(sections)


def _image(architecture: str) -> str:
    """Return one of moto's images: answering with all 1,300 takes it a second."""
    named = {"Name": "name", "Values": [f"al2023-ami-2023*-{architecture}"]}
    found: str = boto3.client("ec2", "us-east-1").describe_images(Filters=[named])["Images"][0][
        "ImageId"
    ]
    return found


#: An older one of Amazon's, which no plan would choose today.
LOCKED = "ami-760aaa0f"


def _network_lock(**changes) -> NetworkLock:
    given = {
        "account": "123456789012",
        "zones": {"us-east-1b": 0},
        "image_ids": {"x86_64": LOCKED},
        **changes,
    }
    return NetworkLock.model_validate(given)


def test_fresh_answers(aws: Aws):
    lock = resolve_network(_settings(), aws)
    assert lock.account == "123456789012"
    assert lock.partition == "aws"
    assert lock.zones == {zone: slot for slot, zone in enumerate(ZONES)}
    images = boto3.client("ec2", "us-east-1").describe_images(
        ImageIds=list(lock.image_ids.values())
    )["Images"]
    assert {image["Architecture"]: image["ImageId"] for image in images} == lock.image_ids
    assert lock.image_ids.keys() == {"x86_64", "arm64"}
    assert all(image["Name"].startswith("al2023-ami-2023") for image in images)


@pytest.mark.parametrize(
    "network",
    [{"nat": "per_zone"}, {"interface_endpoints": ["logs"]}],
)
def test_where_each_zone_costs_there_are_three_and_no_deployed_one_goes(
    aws: Aws, network: dict[str, Any]
):
    settings = _settings(network=network)
    assert list(resolve_network(settings, aws).zones) == ZONES[:3]
    every = {zone: slot for slot, zone in enumerate(ZONES)}
    for refresh in (False, True):
        lock = _network_lock(zones=every)
        assert resolve_network(settings, aws, lock, refresh=refresh).zones == every


def test_no_more_zones_than_the_block_has_room_for(aws: Aws):
    small = {
        "cidr": "10.0.0.0/22",
        "private_subnet_prefix_length": 24,
        "public_subnet_prefix_length": 26,
    }
    assert list(resolve_network(_settings(network=small), aws).zones) == [
        "us-east-1a",
        "us-east-1b",
    ]


def test_earlier_answers_stay(aws: Aws):
    lock = _network_lock()
    assert resolve_network(_settings(), aws, lock) == lock


def test_refresh_asks_again_and_keeps_slots(aws: Aws):
    lock = resolve_network(_settings(), aws, _network_lock(), refresh=True)
    assert lock.zones["us-east-1b"] == 0
    assert sorted(lock.zones) == ZONES
    assert lock.image_ids["x86_64"] != LOCKED
    assert lock.image_ids.keys() == {"x86_64", "arm64"}


def test_refresh_takes_no_zone_away(aws: Aws):
    every = {zone: slot for slot, zone in enumerate(ZONES)}
    assert (
        resolve_network(_settings(), aws, _network_lock(zones=every), refresh=True).zones == every
    )


def test_a_locked_network_gets_arm_when_it_is_told_to_and_keeps_its_image(aws: Aws):
    found = resolve_network(
        _settings(network={"architectures": ["x86_64", "arm64"]}), aws, _network_lock()
    ).image_ids
    assert (found["x86_64"], found["arm64"][:4]) == (LOCKED, "ami-")
    assert resolve_network(_settings(), aws, _network_lock(image_ids=found)).image_ids == found
    less = resolve_network(
        _settings(network={"architectures": ["arm64"]}), aws, _network_lock(image_ids=found)
    ).image_ids
    assert less == {"arm64": found["arm64"]}
    # What is there stays where nobody says otherwise.
    image = {"image": found["x86_64"]}
    assert (
        resolve_network(
            _settings(network=image), aws, _network_lock(image_ids=found), refresh=True
        ).image_ids.keys()
        == found.keys()
    )


def test_wanted_zones_are_taken_and_wrong_ones_refused(aws: Aws):
    wanted = {"zones": ["us-east-1c", "us-east-1b"]}
    assert resolve_network(_settings(network=wanted), aws, _network_lock()).zones == {
        "us-east-1b": 0,
        "us-east-1c": 1,
    }
    with pytest.raises(InvalidInput) as caught:
        resolve_network(_settings(network={"zones": ["us-east-1z"]}), aws)
    assert "us-east-1z" in str(caught.value)
    assert "us-east-1a, us-east-1b" in str(caught.value)


def test_a_named_image_has_to_be_there(aws: Aws):
    known = _image("x86_64")
    assert resolve_network(_settings(network={"image": known}), aws).image_ids == {"x86_64": known}
    # Locked or not: it is the same image.
    locked = _network_lock(image_ids={"x86_64": "ami-00000001"})
    for existing in (None, locked):
        with pytest.raises(InvalidInput, match="ami-00000001"):
            resolve_network(_settings(network={"image": "ami-00000001"}), aws, existing)


@pytest.fixture
def foreign(aws: Aws) -> tuple[str, str]:
    """An image of the account's own, and one of somebody else's."""
    ec2 = boto3.client("ec2", "us-east-1")
    made = ec2.run_instances(ImageId=_image("x86_64"), MinCount=1, MaxCount=1)["Instances"][0][
        "InstanceId"
    ]
    own, foreign = (
        ec2.create_image(InstanceId=made, Name=name)["ImageId"] for name in ("mine", "theirs")
    )
    ec2_backends["123456789012"]["us-east-1"].amis[foreign].owner_id = "099720109477"
    return own, foreign


def test_a_locked_image_of_somebody_else_is_refused_also_if_it_is_not_there_yet(
    aws: Aws, foreign: tuple[str, str]
):
    own, theirs = foreign
    planted = _network_lock(image_ids={"x86_64": theirs})
    with pytest.raises(InvalidInput, match="another owner") as caught:
        resolve_network(_settings(), aws, planted)
    assert caught.value.given == f"{theirs} in terradask.lock.json, of account 099720109477"
    assert "terradask plan network --refresh" in str(caught.value)
    # A private one, to be published once the plan was applied.
    absent = _network_lock(image_ids={"x86_64": "ami-0123456789abcdef0"})
    with pytest.raises(InvalidInput, match="doesn't exist"):
        resolve_network(_settings(), aws, absent)
    for image in (theirs, "ami-0123456789abcdef0"):
        gpu = _network_lock(gpu_image_ids={"x86_64": image})
        with pytest.raises(InvalidInput, match="the locked image"):
            resolve_network(_settings(network={"gpu_images": True}), aws, gpu)
    # Of an owner that is named, of the account's own, and what is to be removed in any case.
    named = _settings(network={"image_owners": ["099720109477"]})
    assert resolve_network(named, aws, planted) == planted
    assert resolve_network(named, aws, _network_lock()) == _network_lock()
    mine = _network_lock(image_ids={"x86_64": own})
    assert resolve_network(_settings(), aws, mine) == mine
    assert resolve_network(_settings(), aws, planted, check=False) == planted


def test_a_given_image_is_checked_also_if_it_is_the_locked_one(aws: Aws, foreign: tuple[str, str]):
    _, theirs = foreign
    with pytest.raises(InvalidInput, match="another owner"):
        resolve_network(
            _settings(network={"image": theirs}),
            aws,
            _network_lock(image_ids={"x86_64": theirs}),
        )


def test_an_image_of_somebody_else_is_refused_until_they_are_named(
    aws: Aws, foreign: tuple[str, str]
):
    """Anybody may publish an image: one of an owner that nobody named never becomes
    what hosts run.
    """
    own, theirs = foreign
    assert resolve_network(_settings(network={"image": own}), aws).image_ids == {"x86_64": own}
    with pytest.raises(InvalidInput, match="another owner") as caught:
        resolve_network(_settings(network={"image": theirs}), aws)
    assert caught.value.given == f"{theirs}, of account 099720109477"
    assert 'image_owners = ["099720109477"]' in caught.value.advice
    named = {"image": theirs, "image_owners": ["099720109477"]}
    assert resolve_network(_settings(network=named), aws).image_ids == {"x86_64": theirs}
    with pytest.raises(InvalidInput, match="another owner"):
        resolve_network(_settings(network={"image": own, "image_owners": ["amazon"]}), aws)
    with pytest.raises(ValueError, match="owns no images"):
        _settings(network={"image_owners": ["canonical"]})


def test_an_image_with_another_root_device_is_refused(aws: Aws):
    """Templates name the root volume: at another device it would stay as the image has it, beside
    an empty disk.
    """
    ubuntu = next(
        image
        for image in ec2_backends["123456789012"]["us-east-1"].amis.values()
        if image.root_device_name == "/dev/sda1" and image.architecture == "x86_64"
    )
    given = {"image": ubuntu.id, "image_owners": [ubuntu.owner_id]}
    with pytest.raises(InvalidInput, match="root volume has another device name") as caught:
        resolve_network(_settings(network=given), aws)
    assert caught.value.given == f"{ubuntu.id}: /dev/sda1"


def test_disks_smaller_than_the_image_are_refused_now_and_later(aws: Aws):
    image = ec2_backends["123456789012"]["us-east-1"].amis[_image("x86_64")]
    image._embedded_size_gib = 75
    named = {"image": image.id, "worker_disk_size_gib": 74}
    with pytest.raises(SettingsError) as caught:
        resolve_network(_settings(network=named), aws)
    assert [finding.where for finding in caught.value.findings] == [
        "network.scheduler_disk_size_gib",
        "network.worker_disk_size_gib",
    ]
    assert caught.value.findings[1].allowed == "75 GiB and more"
    enough = {"image": image.id, "scheduler_disk_size_gib": 75}
    lock = resolve_network(_settings(network=enough), aws)
    assert lock.image_sizes_gib == {"x86_64": 75}
    with pytest.raises(SettingsError, match="worker_disk_size_gib"):
        resolve_network(_settings(network={**enough, "worker_disk_size_gib": 20}), aws, lock)


def test_a_clusters_own_disks_have_room_for_its_image_as_far_as_that_is_known():
    lock = _network_lock(image_sizes_gib={"x86_64": 75})
    small = _settings(
        cluster={"worker_disk_size": 70, "worker_groups": {"big": {"disk_size": 80}}}
    ).cluster
    with pytest.raises(SettingsError) as caught:
        check_own_disks(small, lock)
    assert [finding.where for finding in caught.value.findings] == ["cluster.worker_disk_size"]
    check_own_disks(small, None)
    check_own_disks(_settings(cluster={"arm": True, "worker_disk_size": 70}).cluster, lock)


def test_hosts_with_gpus_get_the_newest_image_with_drivers_and_keep_it(aws: Aws):
    wanted = _settings(network={"gpu_images": True})
    lock = resolve_network(wanted, aws)
    images = boto3.client("ec2", "us-east-1").describe_images(
        ImageIds=list(lock.gpu_image_ids.values())
    )["Images"]
    assert {one["Architecture"]: one["ImageId"] for one in images} == lock.gpu_image_ids
    assert all(
        "Base OSS Nvidia Driver GPU AMI (Amazon Linux 2023)" in one["Name"] for one in images
    )
    assert lock.gpu_image_sizes_gib == {"x86_64": 75, "arm64": 75}
    assert lock.image_ids == resolve_network(_settings(), aws).image_ids
    older = lock.model_copy(update={"gpu_image_ids": lock.image_ids})
    assert resolve_network(wanted, aws, older) == older
    assert resolve_network(wanted, aws, older, refresh=True) == lock
    assert not resolve_network(_settings(), aws, lock).gpu_image_ids


def _publish_no_gpu_image(monkeypatch: pytest.MonkeyPatch, *architectures: str) -> None:
    names = {GPU_IMAGE_PARAMETER.format(architecture=each) for each in architectures}
    get = SimpleSystemManagerBackend.get_parameter
    monkeypatch.setattr(
        SimpleSystemManagerBackend,
        "get_parameter",
        lambda backend, name: None if name in names else get(backend, name),
    )


def test_a_region_may_have_images_with_drivers_for_one_architecture(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
):
    wanted = _settings(network={"gpu_images": True})
    _publish_no_gpu_image(monkeypatch, "arm64")
    assert resolve_network(wanted, aws).gpu_image_ids.keys() == {"x86_64"}
    _publish_no_gpu_image(monkeypatch, "x86_64")
    with pytest.raises(InvalidInput, match="no Deep Learning Base AMI in us-east-1"):
        resolve_network(wanted, aws)


def test_a_clusters_own_disks_have_room_for_the_image_with_drivers():
    network = _network_lock(gpu_image_sizes_gib={"x86_64": 75})
    settings = _settings(
        cluster={
            "worker_disk_size": 50,
            "worker_groups": {"gpu": {"vm_types": ["g5.xlarge"], "disk_size": 70}},
        }
    )
    lock = ClusterLock(
        account="123456789012",
        zone="us-east-1b",
        scheduler_instance_types=["m6i.large"],
        worker_instance_types=["m6i.large"],
        group_instance_types={"gpu": ["g5.xlarge"]},
        gpus={"g5.xlarge": 1},
        gpu_image=True,
    )
    with pytest.raises(SettingsError) as caught:
        check_gpu_disks(settings, lock, network)
    (finding,) = caught.value.findings
    assert (finding.where, finding.given) == ("cluster.worker_groups.gpu.disk_size", 70)
    check_gpu_disks(settings, lock, None)
    check_gpu_disks(settings, lock.model_copy(update={"gpu_image": False}), network)


def test_who_gives_an_image_says_which_for_arm(aws: Aws):
    known = resolve_network(_settings(), aws).image_ids
    both = {"image": known["x86_64"], "arm64_image": known["arm64"]}
    assert resolve_network(_settings(network=both), aws).image_ids == known
    assert resolve_network(_settings(network=both), aws, _network_lock()).image_ids == known
    more = resolve_network(
        _settings(network={"image": known["x86_64"], "architectures": ["arm64", "x86_64"]}), aws
    )
    assert more.image_ids == known
    with pytest.raises(InvalidInput, match=r"network\.arm64_image"):
        resolve_network(_settings(network={"arm64_image": known["x86_64"]}), aws)


def test_image_for_another_processor_is_refused(aws: Aws):
    with pytest.raises(InvalidInput, match="arm64"):
        resolve_network(_settings(network={"image": _image("arm64")}), aws)


def test_answers_of_another_account_are_refused(aws: Aws):
    with pytest.raises(StateConflict, match="belong to another AWS account") as caught:
        resolve_network(_settings(), aws, _network_lock(account="210987654321"))
    assert "123456789012" in str(caught.value)
    assert "210987654321" in str(caught.value)


def test_loopback_block_is_for_an_embedded_aws_alone(aws: Aws, monkeypatch: pytest.MonkeyPatch):
    loopback = _settings(network={"cidr": "127.64.0.0/16"})
    with pytest.raises(InvalidInput, match=r"127\.64\.0\.0/16"):
        resolve_network(loopback, aws, _network_lock())
    monkeypatch.setenv("AWS_ENDPOINT_URL", "https://ec2.example.com")
    with pytest.raises(InvalidInput, match="embedded"):
        resolve_network(loopback, aws, _network_lock())


def test_each_plan_reads_a_given_vpcs_blocks_where_a_rule_is_for_them(aws: Aws) -> None:
    ec2 = boto3.client("ec2", "us-east-1")
    vpc = ec2.create_vpc(CidrBlock="10.7.0.0/16", AmazonProvidedIpv6CidrBlock=True)["Vpc"]["VpcId"]
    subnets = {"us-east-1a": {"scheduler": "subnet-0123456a", "worker": "subnet-0123456a"}}
    files = {"destination": "vpc", "ports": [2049], "reason": "files"}
    given = _settings(network={"vpc_id": vpc, "subnets": subnets, "egress": [files]})

    lock = resolve_network(given, aws)
    ipv4, ipv6 = lock.vpc_blocks
    assert ipv4 == "10.7.0.0/16"
    assert ipv6.endswith("::/56")

    ec2.associate_vpc_cidr_block(VpcId=vpc, CidrBlock="10.8.0.0/16")
    assert resolve_network(given, aws, lock).vpc_blocks == [ipv4, "10.8.0.0/16", ipv6]
    # A removal asks nothing.
    assert resolve_network(given, aws, lock, check=False).vpc_blocks == [ipv4, ipv6]
    without = _settings(network={"vpc_id": vpc, "subnets": subnets})
    assert resolve_network(without, aws, lock).vpc_blocks == []
