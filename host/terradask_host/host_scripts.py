"""Run the network's own scripts as root: ``host_setup`` before Dask, ``host_leave`` when the
machine goes off.

``boot.sh`` runs ``python -m terradask_host.host_scripts setup UNITS REASON``, which also writes
the unit for the other: systemd runs ``python -m terradask_host.host_scripts leave``.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from terradask_host.agent.aws import Aws, error_code, is_aws_error, passes
from terradask_host.agent.logs import HostLog, LogShipper
from terradask_host.agent.retry import repeat
from terradask_host.config import HostConfig, Paths, load_config, parse_document
from terradask_host.document_fields import Record
from terradask_host.documents import UNREADABLE
from terradask_host.errors import ConfigInvalid, HostError, MetadataUnavailable, ScriptFailed
from terradask_host.metadata import Identity, InstanceMetadata
from terradask_host.root_programs import HOST_UNIT, print_line, start_with_host
from terradask_host.script_run import describe_end, last_lines, run_script

#: The scripts' names in ``host.json``.
SETUP, LEAVE = "setup", "leave"

#: Key prefix of scripts in the workspace's bucket; the SHA-256 follows.
KEY_PREFIX = "host/scripts/"

#: Largest script, which is read into memory.
MOST_BYTES = 64 * 2**10

#: Lines of the output in the reason of a failure.
_LAST_LINES = 20

#: How long to try to read tags and scripts: both may lag behind the launch.
_DEADLINE_SECONDS = 60.0

#: After the script's limit, for its last lines to reach CloudWatch.
_SHIP_SECONDS = 15

UNIT = "terradask-leave.service"


@dataclass(frozen=True)
class HostScript(Record):
    """A script of the network, as user data names it.

    Parameters
    ----------
    name
        `SETUP` or `LEAVE`.
    sha256
        SHA-256 of its content, in hexadecimal.
    timeout_seconds
        When it is killed.
    """

    name: str
    sha256: str
    timeout_seconds: int

    def __post_init__(self) -> None:
        if not re.fullmatch("[0-9a-f]{64}", self.sha256) or self.timeout_seconds < 1:
            raise ValueError("not a script")

    @property
    def key(self) -> str:
        """Its key in the workspace's bucket."""
        return KEY_PREFIX + self.sha256

    @property
    def setting(self) -> str:
        """The setting that names it."""
        return f"network.host_{self.name}"

    def path(self, paths: Paths) -> Path:
        """Return where it lies on the host: only root can write there."""
        return paths.programs / "scripts" / self.name

    def output(self, paths: Paths) -> Path:
        """Return the file of its output."""
        return paths.boot_output.with_name(f"terradask-{self.name}.log")


def read_script(document: Mapping[str, Any], name: str) -> HostScript | None:
    """Return a script that ``host.json`` names, or None without one. Raises `ConfigInvalid`."""
    if document.get(name) is None:
        return None
    try:
        return HostScript.read({**document[name], "name": name})
    except UNREADABLE as error:
        raise ConfigInvalid(
            f"host.json: {name} isn't a script.",
            given=document[name],
            allowed="a SHA-256 and timeout_seconds",
        ) from error


def fetch_script(script: HostScript, bucket: str, aws: Aws, paths: Paths) -> None:
    """Put a script where only root can write, if it has the SHA-256 of the user data.

    Raises `ScriptFailed`. Permission: ``s3:GetObject`` on ``host/*`` of the bucket.
    """
    where = f"s3://{bucket}/{script.key}"
    try:
        s3 = aws.client("s3")
        answer = repeat(
            lambda: s3.get_object(Bucket=bucket, Key=script.key), passes, _DEADLINE_SECONDS
        )
        content = answer["Body"].read(MOST_BYTES + 1)
    except Exception as error:
        if not is_aws_error(error):
            raise
        raise ScriptFailed(
            f"{script.setting} can't be read from the bucket.",
            given=f"{where}: {error_code(error)}: {error}",
            advice="terradask apply network puts it there; then terradask apply each cluster.",
        ) from error
    found = hashlib.sha256(content).hexdigest()
    if found != script.sha256:
        raise ScriptFailed(
            f"{script.setting} in the bucket is not the one that was applied, and wasn't run.",
            given=f"{where} with SHA-256 {found}",
            allowed=f"SHA-256 {script.sha256}, from user data",
            advice="Find out who wrote it, delete it, then run: terradask apply network",
        )
    path = script.path(paths)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    path.unlink(missing_ok=True)
    path.touch(mode=0o700)
    path.write_bytes(content)


def run_host_script(
    script: HostScript, config: HostConfig, identity: Identity, show: Callable[[str], None]
) -> None:
    """Run a fetched script. Raises `ScriptFailed` with its last lines."""
    output = script.output(config.paths)
    try:
        code = run_script(
            script.path(config.paths),
            script_environ(os.environ, config, identity),
            folder=config.paths.root,
            output=output,
            timeout_seconds=script.timeout_seconds,
            show=lambda line: show(f"host_{script.name}: {line}"),
        )
    except OSError as error:
        raise ScriptFailed(
            f"{script.setting} can't be run: {error.strerror}.",
            given=script.path(config.paths).read_text(errors="replace").partition("\n")[0],
            allowed="a first line that names a program of the host's image, such as #!/bin/bash",
        ) from error
    if code != 0:
        raise ScriptFailed(
            f"{script.setting} {describe_end(code, script.timeout_seconds)}.",
            given="its last lines:\n" + "\n".join(last_lines(output, _LAST_LINES) or ["(none)"]),
            advice=f"Correct it, then run: terradask apply network; its output: {output}",
        )


def script_environ(
    environ: Mapping[str, str], config: HostConfig, identity: Identity
) -> dict[str, str]:
    """Return the variables of a script: those of the boot, and which host this is."""
    return {
        **environ,
        "HOME": environ.get("HOME", "/root"),
        "AWS_REGION": config.region,
        "AWS_DEFAULT_REGION": config.region,
        "TERRADASK_WORKSPACE": config.workspace,
        "TERRADASK_CLUSTER": identity.cluster,
        "TERRADASK_ROLE": identity.role,
        "TERRADASK_GROUP": identity.group,
        "TERRADASK_REGION": config.region,
        "TERRADASK_INSTANCE_ID": identity.instance_id,
    }


def leave_unit(script: HostScript, paths: Paths) -> str:
    """Return the unit that runs `LEAVE` when the machine goes off, however it does.

    Stopping goes the other way: the host program leaves first, and network and mounts are there.
    """
    python = paths.programs / "venv/bin/python"
    return f"""\
[Unit]
Description=terradask: network.host_leave
Before={HOST_UNIT}
After=network.target network-online.target remote-fs.target

[Service]
Type=oneshot
RemainAfterExit=yes
ExecStart=/bin/true
ExecStop=-{python} -m terradask_host.host_scripts {LEAVE}
TimeoutStopSec={script.timeout_seconds + _SHIP_SECONDS}
"""


def _kept_identity(paths: Paths) -> Path:
    return paths.programs / "scripts" / "identity.json"


def set_up(config: HostConfig, document: Mapping[str, Any], units: Path) -> None:
    """Fetch both scripts, run `SETUP`, and have systemd run `LEAVE`.

    Raises `ConfigInvalid`, `ScriptFailed`, `MetadataUnavailable`.
    """
    scripts = {name: read_script(document, name) for name in (SETUP, LEAVE)}
    setup, leave = scripts[SETUP], scripts[LEAVE]
    if setup is None and leave is None:
        return
    aws = Aws(config.region)
    for script in filter(None, scripts.values()):
        fetch_script(script, config.bucket, aws, config.paths)
    identity = repeat(
        InstanceMetadata(config.metadata_endpoint).identity,
        lambda error: isinstance(error, MetadataUnavailable),
        _DEADLINE_SECONDS,
    )
    _kept_identity(config.paths).write_text(json.dumps(asdict(identity)))
    if setup is not None:
        print_line(f"host_setup begins, for at most {setup.timeout_seconds} s")
        run_host_script(setup, config, identity, print_line)
        print_line("host_setup has ended")
    if leave is not None:
        start_with_host(units, UNIT, leave_unit(leave, config.paths))


def leave(config: HostConfig, document: Mapping[str, Any]) -> None:
    """Run `LEAVE`, with its output in the journal and the host's log; a failure is noted there.

    Raises `ConfigInvalid`.
    """
    script = read_script(document, LEAVE)
    if script is None:
        return
    # By then the instance may be without an answer to who it is.
    log, identity = HostLog(), Identity(**json.loads(_kept_identity(config.paths).read_text()))
    shipper = LogShipper(
        Aws(config.region),
        log,
        log_group=config.log_group,
        identity=identity,
        read_run=InstanceMetadata(config.metadata_endpoint).run_id,
        flush_seconds=config.timing.log_flush_seconds,
    )
    log.info(f"host_leave begins, for at most {script.timeout_seconds} s")
    try:
        run_host_script(script, config, identity, log.info)
        log.info("host_leave has ended")
    except ScriptFailed as error:
        log.error(str(error))
    shipper.close()


def main(arguments: list[str]) -> int:
    """Run one of the two; return 1, with the reason in a file, when `SETUP` fails."""
    config = load_config(os.environ)
    document = parse_document(config.paths.host_json.read_bytes(), "host.json")
    if arguments[0] == LEAVE:
        leave(config, document)
        return 0
    units, reason = map(Path, arguments[1:])
    try:
        set_up(config, document, units)
    except HostError as error:
        reason.write_text(str(error))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
