"""The files of the machines that boot, made once: Debian's, which has systemd and cloud-init of the
age of Amazon Linux's; and the packages of an index for hosts.

``python -m tests.boot.system`` makes what is missing. What reaches the network is here.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from terradask._software.client_versions import lock_software
from terradask._software.package_sync import JUPYTERLAB

ROOT = Path(__file__).parents[2]
BOOT_LOCK = ROOT / "host/terradask_host/boot.lock"

_DEBIAN = (
    "systemd,systemd-sysv,libpam-systemd,dbus,udev,kmod,procps,cloud-init,awscli,python3,"
    "python3-venv,curl,ca-certificates,iproute2,netbase,xfsprogs,mdadm,s3fs"
)
_SUITE = "bookworm"
#: What an image of Amazon's has.
_FILES = {
    "etc/cloud/cloud.cfg.d/99_ec2.cfg": (
        "datasource_list: [Ec2]\nnetwork: {config: disabled}\nlocale: false\n"
    ),
    # Names that aren't there are refused at once.
    "etc/resolv.conf": "nameserver 127.0.0.1\n",
    # Addresses come with the card: nothing here gives leases.
    "usr/sbin/dhclient": "#!/bin/sh\nexit 1\n",
    # Debian's is older than the variable.
    "usr/local/bin/aws": (
        "#!/bin/sh\n"
        'exec /usr/bin/aws ${AWS_ENDPOINT_URL:+--endpoint-url "$AWS_ENDPOINT_URL"} "$@"\n'
    ),
}
#: Services that wait for what a container has not.
_OFF = ("systemd-udev-trigger.service", "systemd-udev-settle.service", "apt-daily.timer")
_RECIPE = hashlib.sha256(json.dumps([_SUITE, _DEBIAN, _FILES, _OFF]).encode()).hexdigest()

#: Every clone of the repository boots the same.
SYSTEM = platformdirs.user_cache_path("terradask-boot") / f"system-{_RECIPE[:16]}"
FOLDER = ROOT / ".boot"
PACKAGES = FOLDER / "packages"

#: What a machine needs of this one's kernel, in a folder.
_PROBE = """\
set -eu
mount --make-rprivate /
mkdir -p "$1"/{groups,upper,work,root}
mount -t cgroup2 none "$1/groups"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$1/upper,workdir=$1/work" "$1/root"
ip link add probe type bridge
ip link add probe0 type veth peer name probe1
nft "add table inet probe; add chain inet probe one; add rule inet probe one ct state new drop"
"""


def why_not() -> str:
    """Return why machines can't boot here, or nothing."""
    if sys.platform != "linux" or os.geteuid():
        return "machines boot in namespaces, which takes Linux and root"
    missing = [name for name in ("unshare", "nsenter", "ip", "nft") if shutil.which(name) is None]
    if missing:
        return f"{', '.join(missing)} missing: apt-get install util-linux iproute2 nftables"
    if not SYSTEM.is_dir() or not PACKAGES.is_dir():
        return "no files to boot: make boot-system, which takes mmdebstrap and the network"
    return _refused()


def _refused() -> str:
    """Return what the kernel refuses, or nothing."""
    with tempfile.TemporaryDirectory() as folder:
        spaces = ("--net", "--mount", "--pid", "--fork", "--uts", "--ipc", "--cgroup")
        done = subprocess.run(
            ["unshare", *spaces, "bash", "-c", _PROBE, "probe", folder],
            capture_output=True,
            text=True,
            check=False,
        )
    return f"machines can't boot here: {done.stderr.strip()}" if done.returncode else ""


def make_system() -> None:
    """Make the files, unless they are there."""
    if SYSTEM.is_dir():
        return
    SYSTEM.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=SYSTEM.parent) as folder:
        made = Path(folder, "system")
        subprocess.run(
            [
                "mmdebstrap",
                "--quiet",
                "--variant=minbase",
                f"--include={_DEBIAN}",
                _SUITE,
                made,
            ],
            check=True,
        )
        for name, text in _FILES.items():
            path = made / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.unlink(missing_ok=True)
            path.write_text(text)
            path.chmod(0o755 if "bin/" in name else 0o644)
        for unit in _OFF:
            (made / "etc/systemd/system" / unit).symlink_to(os.devnull)
        # Of two clones that make it at once, either's will do.
        with contextlib.suppress(OSError):
            made.rename(SYSTEM)


def get_packages() -> None:
    """Get the archives that hosts install: the host program's own, and the environment's, also of
    one with notebooks.
    """
    environment = lock_software([JUPYTERLAB], lock_file=ROOT / "requirements/dev.lock")
    PACKAGES.mkdir(parents=True, exist_ok=True)
    (FOLDER / ".gitignore").write_text("*\n")
    for name, text in {
        "boot.lock": BOOT_LOCK.read_text(),
        "software.lock": environment.to_requirements(),
    }.items():
        path = PACKAGES / name
        if path.exists() and path.read_text() == text:
            continue
        path.unlink(missing_ok=True)
        asked = FOLDER / name
        asked.write_text(text)
        subprocess.run(
            [
                sys.executable,
                *("-m", "pip", "--quiet", "--disable-pip-version-check", "download"),
                *("--no-deps", "--require-hashes", "--only-binary", ":all:"),
                *("--dest", PACKAGES, "--requirement", asked),
            ],
            check=True,
        )
        asked.rename(path)


if __name__ == "__main__":
    make_system()
    get_packages()
