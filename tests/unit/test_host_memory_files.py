"""Keys lie in memory, or nowhere: what the kernel says of a folder."""

import pytest

from terradask_host.agent.keys import check_in_memory, filesystem_of
from terradask_host.errors import KeysOnDisk
from terradask_simulator.hosts.memory import MEMORY, forget_run, make_run

LISTED = """\
22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/vda rw
25 22 0:22 / /run rw,nosuid,nodev shared:11 master:3 - tmpfs tmpfs rw,size=400k
26 22 0:23 / /runner rw - ext4 /dev/vdb rw
27 25 0:24 / /run/on\\040disk rw - ext4 /dev/vdc rw
28 22 0:25 / /srv rw - tmpfs tmpfs rw
29 22 0:26 / /srv rw - xfs /dev/vdd rw
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/run/terradask", "tmpfs"),
        ("/run", "tmpfs"),
        ("/runner/terradask", "ext4"),
        ("/run/on disk/terradask", "ext4"),
        ("/var/lib/terradask", "ext4"),
        ("/srv/keys", "xfs"),
    ],
)
def test_a_path_lies_in_what_was_mounted_last_around_it(tmp_path, path, kind):
    listing = tmp_path / "mountinfo"
    listing.write_text(LISTED)
    assert filesystem_of(type(tmp_path)(path), listing) == kind


@pytest.mark.parametrize("text", ["", "nonsense\n", "1 2 3 4 /run rw tmpfs\n"])
def test_what_can_not_be_told_is_no_memory(tmp_path, text):
    listing = tmp_path / "mountinfo"
    listing.write_text(text)
    assert filesystem_of(tmp_path, listing) is None
    assert filesystem_of(tmp_path, tmp_path / "nowhere") is None


def test_keys_on_a_disk_are_refused():
    with pytest.raises(KeysOnDisk, match="would lie on a disk") as caught:
        check_in_memory(type(MEMORY)("/proc/self"))
    assert caught.value.given == "a file system of type proc"


@pytest.mark.skipif(filesystem_of(MEMORY) != "tmpfs", reason=f"{MEMORY} is not in memory here")
def test_a_hosts_run_of_the_embedded_aws_is_memory_and_goes_with_the_machine(tmp_path):
    make_run(tmp_path)
    make_run(tmp_path)
    run = tmp_path / "run"
    there = run.readlink()
    check_in_memory(run / "terradask")
    (run / "terradask").mkdir()
    (run / "terradask/worker.key").write_text("x")
    forget_run(tmp_path)
    forget_run(tmp_path)
    assert not there.exists()
    assert not run.is_symlink()
