"""Simulated machines have file systems as folders: copies of objects, or shared ones."""

import stat

import pytest

from terradask_simulator.hosts.cloud_config import BootFailed
from terradask_simulator.hosts.mounted import mount_all, unmount_all
from terradask_simulator.hosts.wheel import BootOutput

ROLE = object()


class InMemory:
    """Holds objects by bucket and key; a bucket that it lacks can't be read."""

    def __init__(self, **buckets):
        self.buckets = buckets

    def objects(self, region, bucket, prefix, credentials, *, problem):
        assert (region, credentials) == ("eu-west-1", ROLE)
        if bucket not in self.buckets:
            raise BootFailed(problem, given="AccessDenied")
        return [(key, text) for key, text in self.buckets[bucket].items() if key.startswith(prefix)]


def host(*mounts):
    named = [{"variable": f"TERRADASK_MOUNT_{n}", **mount} for n, mount in enumerate(mounts)]
    return {"format": 1, "region": "eu-west-1", "mounts": named}


def mount(tmp_path, root, document, **buckets):
    mount_all(
        document,
        tmp_path / root,
        shared=tmp_path / "shared",
        store=InMemory(**buckets),
        credentials=ROLE,
        output=BootOutput(tmp_path / root),
    )


def test_a_prefix_is_copied_to_read(tmp_path):
    objects = {"2026/a.csv": b"1", "2026/q1/b.csv": b"2", "2027/c.csv": b"3", "2026x/d.csv": b"4"}
    document = host({"path": "/data/lake", "bucket": "lake", "prefix": "2026"})
    mount(tmp_path, "one", document, lake=objects)
    lake = tmp_path / "one/data/lake"
    found = {str(path.relative_to(lake)): path for path in lake.rglob("*") if path.is_file()}
    assert {name: path.read_bytes() for name, path in found.items()} == {
        "a.csv": b"1",
        "q1/b.csv": b"2",
    }
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (lake, lake / "q1")}
    assert modes == {0o555}
    assert {stat.S_IMODE(path.stat().st_mode) for path in found.values()} == {0o444}
    # Whoever isn't root can delete a machine's files.
    unmount_all(document, tmp_path / "one")
    assert {stat.S_IMODE(path.stat().st_mode) for path in (lake, lake / "q1")} == {0o755}


def test_keys_that_mountpoint_hides_are_hidden(tmp_path):
    objects = {"../../escaped": b"1", "a//b": b"2", "./c": b"3", "d": b"4", "d/e": b"5", "f/": b""}
    mount(tmp_path, "one", host({"path": "/m", "bucket": "lake"}), lake=objects)
    found = [path for path in (tmp_path / "one/m").rglob("*") if path.is_file()]
    assert [str(path.relative_to(tmp_path / "one/m")) for path in found] == ["d/e"]
    assert not (tmp_path / "escaped").exists()


def test_what_may_be_written_stays_on_the_host(tmp_path):
    mount(tmp_path, "one", host({"path": "/m", "bucket": "out", "access": "write"}), out={})
    (tmp_path / "one/m/new").write_text("x")
    log = (tmp_path / "one/var/log/cloud-init-output.log").read_text()
    assert "mounted /m (bucket out): a copy of the objects; files that tasks write stay" in log


@pytest.mark.parametrize("kind", ["efs", "s3_files", "fsx_lustre"])
def test_hosts_share_a_file_system(tmp_path, kind):
    document = host({"path": "/data/shared", kind: "fs-01234567"})
    for root in ("one", "two"):
        mount(tmp_path, root, document)
    (tmp_path / "one/data/shared/note").write_text("from one")
    assert (tmp_path / "two/data/shared/note").read_text() == "from one"
    unmount_all(document, tmp_path / "one")
    assert (tmp_path / "one/data/shared").is_symlink()


def test_a_bucket_that_the_role_may_not_read_fails_the_boot(tmp_path):
    with pytest.raises(BootFailed, match=r"/m \(bucket secret/x\) can't be mounted") as caught:
        mount(tmp_path, "one", host({"path": "/m", "bucket": "secret", "prefix": "x"}))
    assert "AccessDenied" in str(caught.value)


def test_a_host_without_mounts_needs_nothing(tmp_path):
    mount(tmp_path, "one", {"format": 1, "region": "eu-west-1"})
    assert not (tmp_path / "one").exists()
