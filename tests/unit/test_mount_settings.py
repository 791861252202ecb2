"""File systems in the settings: what is refused, and what each needs of network and role."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from terradask_host import mount_list, mounts
from terradask_modules.mounts import KINDS, PORTS, Mount, mount_rights, variable
from terradask_modules.task_rights import DataBucket, right_statements
from terradask_modules.user_data import render_user_data
from terradask_modules.where import Where
from terradask_stacks.settings.mounts import MountSettings, NetworkMountSettings

from .rendered_user_data import VALUES

WHERE = Where(partition="aws", region="eu-west-1", account="123456789012", workspace="default")
FS, POINT = "fs-0123456789abcdef0", "fsap-0123456789abcdef0"


def read(**given: Any) -> MountSettings:
    return MountSettings.model_validate({"path": "/data/lake", **given})


def test_a_bucket_is_read_only_unless_the_settings_say_so() -> None:
    assert read(bucket="lake").access == "read"
    assert read(bucket="lake", prefix="2026/q1", access="write").mount == Mount(
        path="/data/lake", access="write", bucket="lake", prefix="2026/q1"
    )


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/usr", "/usr/share/x", "/etc/x", "/var/lib/terradask/x", "/run/terradask"),
        *("/opt/terradask/venv", "/opt", "/home", "/tmp/x", "/root", "/dev/shm"),
        *("data", "../data", "/data/../etc", "/data/./x", "/data//x", "/data/", "/a b", "/a,b"),
        *("/data/x\n/etc", "/data/é", ""),
    ],
)
def test_a_path_that_is_not_free_is_refused(path: str) -> None:
    with pytest.raises(ValidationError, match=r"is not free on hosts|is not a path of hosts"):
        read(path=path, bucket="lake")


@pytest.mark.parametrize("path", ["/data", "/mnt/lake", "/opt/models", "/srv/x.y-z_1", "/userdata"])
def test_a_folder_of_the_users_own_is_taken(path: str) -> None:
    assert read(path=path, bucket="lake").path == path


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({}, "names no file system"),
        ({"bucket": "lake", "efs": FS}, "names bucket and efs"),
        ({"efs": FS, "prefix": "x"}, "sets prefix with efs"),
        (
            {"efs": FS, "kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/a"},
            "sets kms_key_arn",
        ),
        ({"bucket": "lake", "access_point": POINT}, "sets access_point with bucket"),
        ({"fsx_lustre": FS, "mount_name": "fsx", "access_point": POINT}, "with fsx_lustre"),
        ({"efs": FS, "mount_name": "fsx"}, "sets mount_name with efs"),
        ({"fsx_lustre": FS}, "lacks mount_name"),
        ({"fsx_lustre": FS, "mount_name": "a/b"}, "is not a mount name"),
        ({"efs": "fs-1"}, "is not the id of a file system"),
        ({"efs": f"{FS}.efs.eu-west-1.amazonaws.com"}, "is not the id of a file system"),
        ({"efs": FS, "access_point": FS}, "is not the id of an access point"),
        ({"bucket": "s3://lake"}, "is not the name of an S3 bucket"),
        ({"bucket": "lake", "prefix": "a,b"}, "prefix"),
        ({"bucket": "lake", "prefix": "a/"}, "prefix"),
        ({"bucket": "lake", "prefix": "/a"}, "prefix"),
        ({"bucket": "lake", "access": "append"}, "access"),
        ({"bucket": "lake", "options": "rw"}, "options"),
    ],
)
def test_what_is_no_file_system_is_refused(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        read(**given)


@pytest.mark.parametrize(
    ("paths", "problem"),
    [
        (["/data/lake", "/data/lake"], "the same or one in the other"),
        (["/data", "/data/lake"], "the same or one in the other"),
        (["/data/lake/x", "/data/lake"], "the same or one in the other"),
        (["/data/lake", "/data-lake"], "TERRADASK_MOUNT_DATA_LAKE"),
    ],
)
def test_mounts_are_beside_each_other(paths: list[str], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        NetworkMountSettings.model_validate(
            {"mounts": [{"path": path, "bucket": "lake"} for path in paths]}
        )


def test_mounts_are_in_order_of_their_paths_whatever_the_settings_order() -> None:
    found = NetworkMountSettings.model_validate(
        {"mounts": [{"path": path, "bucket": "lake"} for path in ("/b", "/a", "/lake", "/lakes")]}
    )
    assert [mount.path for mount in found.mounted] == ["/a", "/b", "/lake", "/lakes"]


def test_servers_are_reached_at_their_ports() -> None:
    assert PORTS == {
        "bucket": (),
        "efs": ((2049, 2049),),
        "s3_files": ((2049, 2049),),
        "fsx_lustre": ((988, 988), (1018, 1023)),
    }


def test_a_file_system_is_mounted_by_its_own_right_and_no_more() -> None:
    statements = right_statements(
        mount_rights(
            [
                Mount(path="/a", bucket="lake"),
                Mount(path="/b", efs=FS),
                Mount(path="/c", efs="fs-11111111", access="write", access_point=POINT),
                Mount(path="/d", s3_files="fs-22222222", access="write", access_point=POINT),
                Mount(path="/e", fsx_lustre=FS, mount_name="fsx"),
            ],
            WHERE,
        )
    )
    efs, points, files = statements
    assert efs == {
        "Sid": "TaskMountFs0123456789abcdef0",
        "Effect": "Allow",
        "Action": "elasticfilesystem:ClientMount",
        "Resource": f"arn:aws:elasticfilesystem:eu-west-1:123456789012:file-system/{FS}",
    }
    assert points["Action"] == ["elasticfilesystem:ClientMount", "elasticfilesystem:ClientWrite"]
    assert points["Condition"] == {
        "StringEquals": {
            "elasticfilesystem:AccessPointArn": (
                f"arn:aws:elasticfilesystem:eu-west-1:123456789012:access-point/{POINT}"
            )
        }
    }
    arn = "arn:aws:s3files:eu-west-1:123456789012:file-system/fs-22222222"
    assert files["Action"] == ["s3files:ClientMount", "s3files:ClientWrite"]
    assert files["Resource"] == arn
    assert files["Condition"] == {
        "StringEquals": {"s3files:AccessPointArn": f"{arn}/access-point/{POINT}"}
    }


def network(*mounts: dict[str, Any], **given: Any) -> NetworkMountSettings:
    return NetworkMountSettings.model_validate({"mounts": list(mounts), **given})


def test_mounts_add_to_what_hosts_reach_and_tasks_may_do() -> None:
    found = network(
        {"path": "/data/lake", "bucket": "lake", "prefix": "2026"},
        {"path": "/data/efs", "efs": FS},
        {"path": "/data/fsx", "fsx_lustre": FS, "mount_name": "fsx"},
        egress=[{"destination": "10.1.0.0/16", "ports": [5432], "reason": "orders"}],
        data_buckets=["other"],
    )
    assert [str(rule) for rule in found.all_egress] == [
        "tcp 5432 to 10.1.0.0/16",
        "tcp 2049 to vpc",
        "tcp 988 to vpc",
        "tcp 1018-1023 to vpc",
    ]
    assert found.data == (
        DataBucket(path="other"),
        DataBucket(path="lake/2026", access="read"),
    )
    assert [right.reason for right in found.rights_in(WHERE)] == [f"mount {FS}"]


@pytest.mark.parametrize(
    ("listed", "access", "expected"),
    [
        ([{"name": "lake", "access": "write"}], "read", ["write"]),
        ([{"name": "lake", "access": "read"}], "read", ["read"]),
        ([{"name": "lake", "access": "read"}], "write", ["read", "write"]),
        ([], "write", ["write"]),
    ],
)
def test_a_bucket_that_is_listed_too_is_granted_once(
    listed: list[dict[str, str]], access: str, expected: list[str]
) -> None:
    found = network(
        {"path": "/a", "bucket": "lake", "access": access},
        {"path": "/b", "bucket": "lake", "access": access},
        data_buckets=listed,
    )
    assert [one.access for one in found.data] == expected


def test_the_workspaces_own_bucket_is_no_data() -> None:
    with pytest.raises(ValidationError, match="it reaches a workspace's bucket"):
        read(bucket="terradask-default-123456789012-eu-west-1")


def test_hosts_read_what_user_data_says() -> None:
    given = (
        Mount(path="/data/lake", bucket="lake", prefix="2026", kms_key_arn="arn:aws:kms:x"),
        Mount(path="/data/old", fsx_lustre=FS, mount_name="fsx", access="write"),
    )
    text = render_user_data(**VALUES, mounts=given)
    (written,) = [
        entry["content"]
        for entry in yaml.safe_load(text)["write_files"]
        if entry["path"] == "/etc/terradask/host.json"
    ]
    lake, old = mount_list.mounts_of(json.loads(written))
    assert lake.facts == {
        "path": "/data/lake",
        "access": "read",
        "bucket": "lake",
        "prefix": "2026",
        "variable": "TERRADASK_MOUNT_DATA_LAKE",
    }
    assert (str(lake), lake.writable) == ("/data/lake (bucket lake/2026)", False)
    assert (str(old), old.writable) == (f"/data/old (FSx for Lustre {FS})", True)


def test_a_network_without_mounts_has_the_user_data_that_it_had() -> None:
    assert "mounts" not in json.dumps(yaml.safe_load(render_user_data(**VALUES))["write_files"][0])


def test_both_ends_know_the_same_kinds() -> None:
    assert tuple(mount_list.CALLED) == tuple(mounts.KINDS) == KINDS


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/lake", "TERRADASK_MOUNT_DATA_LAKE"),
        ("/mnt/v1.2-x_y", "TERRADASK_MOUNT_MNT_V1_2_X_Y"),
        ("/a/", "TERRADASK_MOUNT_A"),
    ],
)
def test_tasks_find_a_mount_by_a_variable(path: str, name: str) -> None:
    assert variable(path) == name
