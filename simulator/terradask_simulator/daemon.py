"""The process that is the embedded AWS: ``python -m terradask_simulator.daemon``.

Writes one line of JSON to its standard output when it answers, or says why it can't; then it works until it is asked
to stop, gets SIGTERM, or its parent is gone.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terradask_simulator.aws.addresses import Slot, claim_slot
from terradask_simulator.aws.backend import ACCOUNT, STATE_LOCK, autoscaling_backends
from terradask_simulator.aws.credentials import RoleKeys
from terradask_simulator.aws.endpoint.calls import CallRecorder
from terradask_simulator.aws.endpoint.lost_answers import Drops
from terradask_simulator.aws.endpoint.server import Endpoint, bind
from terradask_simulator.aws.endpoint.signatures import Signatures
from terradask_simulator.aws.fidelity import install_all
from terradask_simulator.aws.fidelity import sessions as session_api
from terradask_simulator.aws.fidelity.throttling import Throttle
from terradask_simulator.aws.history import History
from terradask_simulator.aws.iam.gate import Gate
from terradask_simulator.aws.instances import running_ids
from terradask_simulator.aws.network import LoopbackNetwork
from terradask_simulator.aws.reconcile import ReconcileLoop
from terradask_simulator.aws.session_manager.plugin_program import write_plugin
from terradask_simulator.aws.session_manager.sessions import Sessions
from terradask_simulator.errors import SimulatorError
from terradask_simulator.hosts.hosts import Hosts
from terradask_simulator.switchboard import Switchboard

__all__ = ["main"]

_log = logging.getLogger(__name__)

#: From SIGTERM to SIGKILL for hosts when the whole simulator stops.
_STOP_GRACE_SECONDS = 2.0


class Daemon:
    """All parts of one embedded AWS.

    Parameters
    ----------
    server
        The endpoint's bound socket.
    slot
        The address range that it holds.
    state_dir
        The folder for everything.
    region
        The region that clients use by default.
    boot_hosts
        Whether instances get machines.
    enforce_iam
        Whether policies decide what roles and users may do.
    """

    def __init__(
        self, server: socket.socket, slot: Slot, state_dir: Path, region: str, *, boot_hosts: bool, enforce_iam: bool = False
    ) -> None:
        self._region, self._slot, self._state_dir = region, slot, state_dir
        self._port = server.getsockname()[1]
        self.stopped = threading.Event()
        self._recorder = CallRecorder()
        keys = RoleKeys(self._recorder)
        self._network = LoopbackNetwork(keys)
        session_api.install(Sessions(self._network))
        self._gate = Gate() if enforce_iam else None
        throttle, drops, signatures = Throttle(), Drops(), Signatures()
        self._endpoint = Endpoint(server, self._recorder, self._control, self._gate, throttle, drops=drops, signatures=signatures)
        self._hosts = Hosts(state_dir / "hosts", self.endpoint_url, keys, self._network) if boot_hosts else None
        self._switchboard = Switchboard(throttle, drops, signatures, self._network, self._hosts)
        self._history = History()
        self._loop = ReconcileLoop(self._hosts, self._history)
        self._reaper: subprocess.Popen[bytes] | None = None

    @property
    def endpoint_url(self) -> str:
        """Where AWS answers."""
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start every part."""
        if self._hosts is not None:
            self._reaper = subprocess.Popen(
                [sys.executable, "-m", "terradask_simulator.hosts.reaper", str(self._state_dir / "hosts")],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        self._network.start()
        self._endpoint.start()
        self._loop.start()

    def stop(self) -> None:
        """End hosts, then everything else."""
        self._loop.stop()
        if self._hosts is not None:
            self._hosts.stop(_STOP_GRACE_SECONDS)
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()
        self._network.stop()
        self._endpoint.stop()
        if self._reaper is not None:
            self._reaper.wait(15)

    def info(self) -> dict[str, Any]:
        """Return what a client needs to know."""
        return {
            "pid": os.getpid(),
            "port": self._port,
            "endpoint_url": self.endpoint_url,
            "region": self._region,
            "account": ACCOUNT,
            "vpc_cidr": self._slot.vpc_cidr,
            "public_cidr": self._slot.public_cidr,
            "state_dir": str(self._state_dir),
            "boot_hosts": self._hosts is not None,
            "enforce_iam": self._gate is not None,
        }

    def _control(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        if method == "POST":
            return self._act(path, body)
        counts = {"role": self._recorder.by_role, "resource": self._recorder.by_resource}
        answers: dict[str, Callable[[], Any]] = {
            "info": self.info,
            "calls": counts.get(query.get("by", ""), self._recorder.counts),
            "calls/log": lambda: self._recorder.log(query.get("role", "")),
            "hosts": lambda: self._hosts.table() if self._hosts is not None else [],
            "instances": running_ids,
            "groups": self._groups,
            "history": self._history.as_dict,
            "requests": self._requests,
            "switches": self._switchboard.table,
        }
        return answers[path]() if path in answers else None

    def _act(self, path: str, body: Any) -> Any:
        match path.split("/"):
            case ["calls", "reset"]:
                self._recorder.reset()
                if self._gate is not None:
                    self._gate.log.reset()
            case ["hosts", instance_id, "kill"]:
                return {"killed": self._hosts is not None and self._hosts.kill(instance_id)}
            case ["switches", name]:
                try:
                    return {"undo": self._switchboard.switch(name, body or {})}
                except SimulatorError as error:
                    return {"refused": error.as_dict()}
            case ["stop"]:
                self.stopped.set()
            case _:
                return None
        return {}

    def _requests(self) -> dict[str, list[dict[str, Any]]]:
        logged = {} if self._gate is None else self._gate.log.by_principal()
        return {entity: [one.as_dict() for one in requests] for entity, requests in logged.items()}

    def _groups(self) -> list[dict[str, Any]]:
        with STATE_LOCK:
            return [
                {
                    "name": group.name,
                    "desired": group.desired_capacity,
                    "instances": [state.instance.id for state in group.instance_states],
                    "cluster": next((tag["Value"] for tag in group.tags if tag["Key"] == "terradask:cluster"), ""),
                    "workspace": next((tag["Value"] for tag in group.tags if tag["Key"] == "terradask:workspace"), ""),
                }
                for backend in autoscaling_backends()
                for group in backend.autoscaling_groups.values()
            ]


def main(arguments: list[str] | None = None) -> int:
    """Run the embedded AWS until it is told to stop.

    Parameters
    ----------
    arguments
        The command line, without the program's name.
    """
    parser = argparse.ArgumentParser(prog="python -m terradask_simulator.daemon")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--no-hosts", action="store_true")
    parser.add_argument("--iam", action="store_true")
    parser.add_argument("--parent", type=int, default=0)
    parser.add_argument("--temporary", action="store_true")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for name in ("botocore", "boto3", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        daemon = _make(options)
    except SimulatorError as error:
        print(json.dumps({"refused": error.as_dict()}), flush=True)
        return 1
    signal.signal(signal.SIGTERM, lambda *_: daemon.stopped.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    daemon.start()
    print(json.dumps(daemon.info()), flush=True)
    orphaned = False
    while not orphaned and not daemon.stopped.wait(0.5):
        orphaned = bool(options.parent) and os.getppid() != options.parent
    if orphaned:
        _log.warning("the parent process is gone; stopping")
    daemon.stop()
    if orphaned and options.temporary:
        # Nobody is left who would remove it.
        shutil.rmtree(options.state_dir, ignore_errors=True)
    return 0


def _make(options: argparse.Namespace) -> Daemon:
    # The socket and the range first: what can be refused is refused before anything is loaded.
    server = bind(options.port)
    slot = claim_slot()
    state_dir: Path = options.state_dir
    (state_dir / "hosts").mkdir(parents=True, exist_ok=True)
    (state_dir / "wheels").mkdir(exist_ok=True)
    write_plugin(state_dir)
    os.environ.update(
        MOTO_PORT=str(server.getsockname()[1]),
        MOTO_IAM_LOAD_MANAGED_POLICIES="true",
        MOTO_EC2_ENABLE_INSTANCE_TYPE_VALIDATION="true",
    )
    install_all(public_cidr=slot.public_cidr)
    return Daemon(server, slot, state_dir, options.region, boot_hosts=not options.no_hosts, enforce_iam=options.iam)


if __name__ == "__main__":
    sys.exit(main())
