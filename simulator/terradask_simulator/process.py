"""Start, find and query the daemon's process, and deploy the network baseline on it; for the class
`Simulator` and the command line.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import IO, Any

import psutil

from terradask_simulator import errors
from terradask_simulator.aws.access_keys import read_owner_key
from terradask_simulator.aws.endpoint import CONTROL_PREFIX, CONTROL_SERVICE
from terradask_simulator.aws.errors import rebuilt
from terradask_simulator.environment import credentials_path, overlay, without_aws
from terradask_simulator.errors import BaselineFailed, SimulatorError, SimulatorGone

__all__ = [
    "INFO_NAME",
    "SimulatorInfo",
    "created_at",
    "deploy_baseline",
    "environment_of",
    "first_line",
    "launch",
    "left_running",
    "request_control",
    "request_stop",
    "spawn",
]

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0

#: Begin of a line of ``terradask apply network`` on a step, such as ``  network: plan  done``.
_STEP = "  network: "

#: File in the simulator's folder with its `SimulatorInfo`, for processes with its environment.
INFO_NAME = "simulator.json"


@dataclass(frozen=True)
class SimulatorInfo:
    """Location and resources of a running simulator.

    Parameters
    ----------
    pid, created
        The daemon's process id, and its creation time, which distinguishes it from a later process
        with the same id.
    port, endpoint_url
        The port and URL of the endpoint.
    region, account
        The default region, and the account.
    vpc_cidr, public_cidr
        The ranges that private and public addresses come from.
    state_dir
        The folder with everything.
    boot_hosts
        Whether machines boot for instances.
    enforce_iam
        Whether policies decide what roles and users may do.
    """

    pid: int
    created: float
    port: int
    endpoint_url: str
    region: str
    account: str
    vpc_cidr: str
    public_cidr: str
    state_dir: str
    boot_hosts: bool
    enforce_iam: bool = False

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return asdict(self)


def created_at(pid: int) -> float | None:
    """Return the creation time of a live process, or None."""
    try:
        process = psutil.Process(pid)
        return None if process.status() == psutil.STATUS_ZOMBIE else float(process.create_time())
    except psutil.Error:
        return None


def launch(
    *,
    port: int = 0,
    region: str = "us-east-1",
    boot_hosts: bool = True,
    enforce_iam: bool = False,
    state_dir: Path | None = None,
    bound: bool = True,
) -> tuple[SimulatorInfo, subprocess.Popen[bytes]]:
    """Start a daemon and wait until it answers.

    Its folder is `state_dir`, by default a new temporary one; if `bound`, it ends with this
    process.
    """
    made = state_dir is None
    folder = (
        Path(tempfile.mkdtemp(prefix="terradask-sim-"))
        if state_dir is None
        else state_dir.resolve()
    )
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "empty-aws-config").touch()
    arguments = ["--state-dir", str(folder), "--port", str(port), "--region", region]
    arguments += [] if boot_hosts else ["--no-hosts"]
    arguments += ["--iam"] if enforce_iam else []
    arguments += ["--parent", str(os.getpid())] if bound else []
    arguments += ["--temporary"] if made else []
    log_path = folder / "daemon.log"
    with log_path.open("ab") as log:
        process = spawn(arguments, without_aws(os.environ), log)
    try:
        answer = first_line(process)
    except BaseException:
        # Also after an interrupt: an unbound daemon would keep running.
        process.kill()
        process.wait()
        if made:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if answer is None:
        process.kill()
        process.wait()
        tail = "\n".join(log_path.read_text(errors="replace").splitlines()[-20:])
        raise SimulatorGone("The embedded AWS did not start", given=tail, advice=f"read {log_path}")
    created = created_at(process.pid) or time.time()
    info = SimulatorInfo(created=created, **answer)
    (folder / INFO_NAME).write_text(json.dumps(info.as_dict(), indent=2) + "\n")
    return info, process


def spawn(
    arguments: Sequence[str], environ: Mapping[str, str], log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """Start the daemon's process in its own session, with its errors in `log`."""
    return subprocess.Popen(
        [sys.executable, "-P", "-m", "terradask_simulator.daemon", *arguments],
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=log,
        start_new_session=True,
        umask=0o077,
    )


def first_line(process: subprocess.Popen[bytes]) -> dict[str, Any] | None:
    """Return the line that a daemon writes when it is ready, or None after the time limit."""
    if process.stdout is None:
        return None
    with process.stdout as stdout:
        ready, _, _ = select.select([stdout], [], [], _START_SECONDS)
        line = stdout.readline() if ready else b""
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError:
        return None
    if "refused" not in answer:
        return answer
    raise _refusal(**answer["refused"])


def _refusal(error: str, **fields: Any) -> SimulatorError:
    """Return the daemon's error from its fields, as `SimulatorError.as_dict` writes them."""
    return rebuilt(getattr(errors, error, SimulatorError), (fields["problem"],), fields)


def request_control(
    info: SimulatorInfo, method: str, path: str, body: Any = None, *, timeout: float = 60.0
) -> Any:
    """Send a request to the daemon's control API; raises the error of a refused one."""
    connection = http.client.HTTPConnection("127.0.0.1", info.port, timeout=timeout)
    try:
        content = None if body is None else json.dumps(body)
        connection.request(
            method, f"{CONTROL_PREFIX}{path}", content, _signed(info, method, path, content)
        )
        response = connection.getresponse()
        text = response.read()
        if response.status != http.HTTPStatus.OK:
            raise SimulatorError(
                f"The embedded AWS refused {method} {path}", given=text.decode(errors="replace")
            )
        answer = json.loads(text)
    except (OSError, http.client.HTTPException) as error:
        raise SimulatorGone(
            "The embedded AWS does not answer",
            given=info.endpoint_url,
            advice=f"read {Path(info.state_dir) / 'daemon.log'}",
        ) from error
    finally:
        connection.close()
    if isinstance(answer, dict) and "refused" in answer:
        raise _refusal(**answer["refused"])
    return answer


def _signed(info: SimulatorInfo, method: str, path: str, content: str | None) -> dict[str, str]:
    """Return the headers of a request that is signed with the owner's key."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest
    from botocore.credentials import Credentials

    key = read_owner_key(credentials_path(Path(info.state_dir)))
    request = AWSRequest(method, f"{info.endpoint_url}{CONTROL_PREFIX}{path}", data=content)
    request.headers["Connection"] = "close"
    credentials = Credentials(key.access_key_id, key.secret)
    SigV4Auth(credentials, CONTROL_SERVICE, info.region).add_auth(request)
    return dict(request.headers.items())


def environment_of(info: SimulatorInfo) -> dict[str, str | None]:
    """Return the variables that make a shell use a simulator; None removes one."""
    return overlay(
        endpoint_url=info.endpoint_url,
        region=info.region,
        vpc_cidr=info.vpc_cidr,
        state_dir=Path(info.state_dir),
    )


def left_running(info: SimulatorInfo) -> list[str]:
    """Return the deployed clusters of a simulator, and running instances outside of clusters."""
    groups = request_control(info, "GET", "groups")
    members = {instance for group in groups for instance in group["instances"]}
    left = [
        f"group {group['name']}"
        + (f" of cluster {cluster}" if (cluster := group["tags"].get("terradask:cluster")) else "")
        + f" ({_hosts_of(group['desired'], group['instances'])})"
        for group in groups
    ]
    left += [
        f"instance {instance}"
        for instance in request_control(info, "GET", "instances")
        if instance not in members
    ]
    return left


def _hosts_of(desired: int, instances: Sequence[str]) -> str:
    if not desired and not instances:
        return "deployed, stopped"
    return f"desired {desired}, instances: {', '.join(instances) or 'none yet'}"


def request_stop(info: SimulatorInfo, process: subprocess.Popen[bytes] | None) -> list[str]:
    """Stop a daemon and wait for its end; kill it after the time limit. `process` is the daemon's,
    if this process started it. Return what was left running, if the daemon reports it.
    """
    left: list[str] = []
    with contextlib.suppress(SimulatorError):
        left = left_running(info)
    with contextlib.suppress(SimulatorError):
        request_control(info, "POST", "stop")
    _await_end(info, process)
    return left


def _await_end(info: SimulatorInfo, process: subprocess.Popen[bytes] | None) -> None:
    end = time.monotonic() + _STOP_SECONDS
    while time.monotonic() < end:
        if process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(end - time.monotonic())
                return
        elif created_at(info.pid) != info.created:
            return
        else:
            time.sleep(0.05)
    if created_at(info.pid) == info.created:
        # The reaper ends the hosts of a killed daemon.
        with contextlib.suppress(psutil.NoSuchProcess):
            psutil.Process(info.pid).kill()
    if process is not None:
        process.wait()


def deploy_baseline(
    environ: Mapping[str, str], on_step: Callable[[str], None] | None = None
) -> None:
    """Run ``terradask apply network --yes``; pass each of its steps on."""
    if find_spec("terradask") is None:
        raise BaselineFailed(
            "The network baseline is terradask's, and terradask is not installed",
            advice="pip install terradask, or start without the baseline",
        )
    lines: deque[str] = deque(maxlen=25)
    with tempfile.TemporaryFile("w+", errors="replace") as report:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "terradask", "apply", "network", "--yes"],
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=report,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            errors="replace",
        )
        with process:
            try:
                for line in process.stderr or ():
                    lines.append(line.rstrip())
                    if on_step is not None and line.startswith(_STEP):
                        on_step(line.rstrip())
            except BaseException:
                process.kill()
                raise
        if process.returncode:
            report.seek(0)
            tail = "\n".join(deque([*report.read().splitlines(), *lines], maxlen=25))
    if process.returncode:
        raise BaselineFailed(
            "The network baseline could not be deployed on the embedded AWS",
            given=f"`terradask apply network --yes` ended with code {process.returncode}:\n{tail}",
            advice=(
                "start without the baseline and run the command by hand: `terradask sim run "
                "--bare -- ...`"
            ),
        )
