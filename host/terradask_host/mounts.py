"""Mount the file systems of ``host.json`` for tasks: ``python -m terradask_host.mounts HOST_JSON``,
run as root by ``boot.sh``, and by a unit before each start of the host program, since a stop ends
them. Its output is the reason of a failure; the rest goes to standard error.

Each becomes a line of fstab, which systemd mounts within a time limit, and unmounts at power off,
when the host's unit has ended. After a failed mount, systemd alone would start no host program:
the instance would run, silent.

AWS (documented): Mountpoint for S3, EFS, S3 Files and FSx for Lustre are mounted by fstab.
https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md,
https://docs.aws.amazon.com/efs/latest/ug/mount-fs-auto-mount-onreboot.html,
https://github.com/aws/efs-utils,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/mount-fs-auto-mount-onreboot.html

AWS (documented): The packages mount-s3, amazon-efs-utils and lustre-client are in Amazon Linux
2023's repositories.
https://docs.aws.amazon.com/AmazonS3/latest/userguide/mountpoint-installation.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-prereq-policies.html,
https://docs.aws.amazon.com/fsx/latest/LustreGuide/install-lustre-client.html
"""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from terradask_host.config import Paths, parse_document
from terradask_host.errors import ConfigInvalid, MountFailed
from terradask_host.mount_list import REASON, HostMount, mounts_of
from terradask_host.root_programs import HOST_UNIT, INSTALL, OWNER, print_line, run_command
from terradask_host.units import DISKS_UNIT

#: After it systemd ends the mount's process, and kills it after as long again: NFS would wait
#: forever for a server that doesn't answer.
MOUNT_SECONDS = 60

#: Folder of root's alone, on the disk where Dask spills: Mountpoint's cache isn't encrypted.
CACHE = "var/cache/terradask-mounts"
#: Share of that disk for all caches together.
CACHE_SHARE = 0.25

_UNITS = "etc/systemd/system"
DROP_IN = f"{_UNITS}/{HOST_UNIT}.d/mounts.conf"
UNIT = f"{_UNITS}/terradask-mounts.service"

Run = Callable[[Sequence[str], float], str]


@dataclass(frozen=True)
class Kind:
    """A kind of file system.

    Parameters
    ----------
    type, package
        Its name in fstab, after which its program ``mount.TYPE`` is called; the package that has
        the program.
    options
        Its own options of fstab.
    check
        Likely causes of a failure, to check.
    """

    type: str
    package: str
    options: tuple[str, ...]
    check: str


_TARGET = (
    "a mount target in this host's zone, its security group, which must admit TCP 2049 from the "
    "hosts' group, and the file system's policy"
)
#: The member of host.json that names the source -> its kind.
KINDS: Mapping[str, Kind] = {
    "bucket": Kind(
        "mount-s3",
        "mount-s3",
        ("allow-other",),
        "the bucket's name and region (without NAT only this region's are reached), its policy and "
        "its key's policy, and kms_key_arn in network.mounts if objects have a key of their own",
    ),
    "efs": Kind(
        "efs",
        "amazon-efs-utils",
        ("tls", "iam"),
        _TARGET,
    ),
    "s3_files": Kind(
        "s3files",
        "amazon-efs-utils",
        # Reads through the file system alone: the bucket behind it is its own right.
        ("nodirects3read",),
        _TARGET,
    ),
    "fsx_lustre": Kind(
        "lustre",
        "lustre-client",
        ("relatime", "flock"),
        "the file system's security group, which must admit TCP 988 and 1018-1023 from the hosts' "
        "group, and mount_name in network.mounts",
    ),
}

_NO_PROGRAM = (
    "Amazon Linux 2023 has mount-s3 since version 2023.9.20251110, and amazon-efs-utils with "
    "S3 Files since 3.0.0: use a newer image (`terradask plan --refresh network`, or "
    "network.image), or install it in network.host_setup"
)


def fstab_line(
    mount: HostMount, *, region: str, owner: tuple[int, int], cache_mib: int, cache: Path
) -> str:
    """Return a mount's line of fstab."""
    kind = KINDS[mount.kind]
    options = [
        *("noauto", "_netdev", "nosuid", "nodev", "rw" if mount.writable else "ro"),
        f"x-systemd.mount-timeout={MOUNT_SECONDS}s",
        *kind.options,
    ]
    if mount.kind == "bucket":
        options += [
            f"uid={owner[0]}",
            f"gid={owner[1]}",
            f"cache={cache}",
            f"max-cache-size={cache_mib}",
            *(("allow-delete", "allow-overwrite") if mount.writable else ()),
        ]
    if "access_point" in mount.facts:
        options.append(f"accesspoint={mount.facts['access_point']}")
    return f"{mount.source(region)} {mount.path} {kind.type} {','.join(options)} 0 0\n"


def drop_in(mounts: Sequence[HostMount], units: Sequence[str]) -> str:
    """Return the settings of the host's unit: it ends before its mounts' `units`, and may write to
    some.
    """
    writable = " ".join(mount.path for mount in mounts if mount.writable)
    service = f"[Service]\nReadWritePaths={writable}\n" if writable else ""
    name = Path(UNIT).name
    return f"[Unit]\nWants={name}\nAfter={name} {' '.join(units)}\n{service}"


def mounting_unit(host_json: Path) -> str:
    """Return the unit that mounts what isn't mounted before each start of the host program."""
    return f"""\
[Unit]
Description=terradask: file systems of tasks
Wants=network-online.target
After=network-online.target {DISKS_UNIT}

[Service]
Type=oneshot
ExecStart=-{sys.executable} -m terradask_host.mounts {host_json}
"""


class Mounter:
    """Mounts file systems on one machine, as root.

    `owner` has the user and group ids of the user of tasks. `run` runs a command within a number of
    seconds, and returns its output; it raises `OSError` and `subprocess.SubprocessError`.
    """

    def __init__(
        self,
        paths: Paths,
        *,
        region: str,
        owner: tuple[int, int],
        run: Run,
        log: Callable[[str], None],
        find_program: Callable[[str], str | None] = shutil.which,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._paths, self._region, self._owner = paths, region, owner
        self._run, self._log = run, log
        self._find, self._pause = find_program, pause

    def mount_all(self, mounts: Sequence[HostMount], host_json: Path) -> None:
        """Install what is missing, and mount everything, also a second time; raises `MountFailed`
        at the first that fails.
        """
        for mount in mounts:
            self._install(mount)
        root = self._paths.root
        cache = self._cache() if any(mount.kind == "bucket" for mount in mounts) else root / CACHE
        room_mib = shutil.disk_usage(cache).total // 2**20 if cache.is_dir() else 0
        buckets = max(sum(mount.kind == "bucket" for mount in mounts), 1)
        lines = [
            fstab_line(
                mount,
                region=self._region,
                owner=self._owner,
                cache=cache,
                cache_mib=max(int(room_mib * CACHE_SHARE / buckets), 1),
            )
            for mount in mounts
        ]
        for mount in mounts:
            mount.below(root).mkdir(parents=True, exist_ok=True)
        self._write_units(mounts, host_json, lines)
        for mount in mounts:
            self._mount(mount)

    def _write_units(
        self, mounts: Sequence[HostMount], host_json: Path, lines: Sequence[str]
    ) -> None:
        root, paths = self._paths.root, [mount.path for mount in mounts]
        fstab = root / "etc/fstab"
        others = [
            line
            for line in fstab.read_text().splitlines(keepends=True)
            if line.split()[1:2] not in [[path] for path in paths]
        ]
        escape = ["systemd-escape", "--path", "--suffix=mount", *paths]
        files = {
            fstab: "".join([*others, *lines]),
            root / DROP_IN: drop_in(mounts, self._run(escape, 10).split()),
            root / UNIT: mounting_unit(host_json),
        }
        changed = {path: text for path, text in files.items() if _text(path) != text}
        for path, text in changed.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if changed:
            self._run(["systemctl", "daemon-reload"], 60)

    def _install(self, mount: HostMount) -> None:
        kind = KINDS[mount.kind]
        program = f"mount.{kind.type}"
        if self._find(program) is not None:
            return
        for attempt in range(1, 6):
            try:
                self._run([*INSTALL, kind.package], 300)
                break
            except (OSError, subprocess.SubprocessError) as error:
                self._log(f"attempt {attempt} of 5 failed: dnf install {kind.package}")
                if attempt == 5:
                    raise MountFailed(
                        f"network.mounts: {mount} needs the package {kind.package}, which can't be "
                        f"installed: {_last_line(error)}.",
                        advice=_NO_PROGRAM,
                    ) from error
                self._pause(3 * attempt)
        if self._find(program) is None:
            raise MountFailed(
                f"network.mounts: {mount} needs {program}, which the package {kind.package} of "
                "this image doesn't have.",
                advice=_NO_PROGRAM,
            )

    def _cache(self) -> Path:
        """Return the folder of caches, and put it onto the local disk if scratch space lies there.

        Tasks own the scratch space: a path through it could lead root anywhere, and a bind leads to
        this folder.
        """
        cache = self._paths.root / CACHE
        self._run(["install", "-d", "-m", "0700", str(cache)], 60)
        # Local disks are empty after a stop.
        if self._paths.scratch.is_mount() and not cache.is_mount():
            own = self._paths.scratch / ".mounts"
            self._run(["install", "-d", "-m", "0700", str(own)], 60)
            self._run(["mount", "--bind", str(own), str(cache)], 60)
        return cache

    def _mount(self, mount: HostMount) -> None:
        began = time.monotonic()
        try:
            # A path is the name of its mount, for systemd.
            self._run(["systemctl", "start", mount.path], 3 * MOUNT_SECONDS)
        except (OSError, subprocess.SubprocessError) as error:
            printed = self._printed(mount) or _last_line(error)
            seconds = time.monotonic() - began
            how = f" within {MOUNT_SECONDS} s" if seconds >= MOUNT_SECONDS else ""
            raise MountFailed(
                f"network.mounts: {mount} can't be mounted{how}: {printed}.",
                advice=f"check {KINDS[mount.kind].check}",
            ) from error
        self._log(f"mounted {mount}")

    def _printed(self, mount: HostMount) -> str:
        """Return the last line of a mount's own processes, without systemd's."""
        try:
            unit = self._run(["systemd-escape", "--path", "--suffix=mount", mount.path], 10).strip()
            lines = self._run(
                ["journalctl", "--quiet", "--output=cat", f"_SYSTEMD_UNIT={unit}"], 30
            ).splitlines()
        except (OSError, subprocess.SubprocessError):
            return ""
        for line in lines:
            self._log(f"{mount.path}: {line}")
        printed = [line.strip() for line in lines if line.strip()]
        return printed[-1].rstrip(".") if printed else ""


def _text(path: Path) -> str | None:
    return path.read_text() if path.exists() else None


def _last_line(error: Exception) -> str:
    output = getattr(error, "stderr", None) or getattr(error, "output", None) or ""
    lines = [line.strip() for line in str(output).splitlines() if line.strip()]
    return (lines[-1] if lines else str(error)).rstrip(".")


def mount_of(host_json: Path, paths: Paths) -> str:
    """Mount what ``host.json`` names; return why that failed, or nothing."""
    try:
        document = parse_document(host_json.read_bytes(), str(host_json))
        mounts = mounts_of(document)
        if mounts:
            user = pwd.getpwnam(OWNER)
            mounter = Mounter(
                paths,
                region=str(document["region"]),
                owner=(user.pw_uid, user.pw_gid),
                run=run_command,
                log=partial(print_line, stream=sys.stderr),
            )
            mounter.mount_all(mounts, host_json)
    except (ConfigInvalid, MountFailed) as error:
        return str(error)
    except (OSError, subprocess.SubprocessError, KeyError) as error:
        return f"network.mounts: {_last_line(error)}"
    return ""


def main(host_json: Path) -> int:
    """Return 0 if everything is mounted; print why not, and return 1. For the host program, which
    isn't root, the reason is in a file too.
    """
    paths = Paths.of_environ(os.environ)
    reason = mount_of(host_json, paths)
    file = paths.root / REASON
    if file.parent.is_dir():
        file.write_text(reason)
        file.chmod(0o644)
    if reason:
        print(reason)
    return bool(reason)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
