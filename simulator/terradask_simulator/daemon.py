"""The process that is the embedded AWS: ``python -m terradask_simulator.daemon``.

It writes one line of JSON to its standard output when it is ready, or with the error; then it runs
until a request to stop, SIGTERM, or the end of its parent.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from terradask_simulator.aws.access_keys import make_owner_key, write_owner_key
from terradask_simulator.aws.backend import ACCOUNT
from terradask_simulator.aws.embedded import EmbeddedAws
from terradask_simulator.aws.session_manager.plugin import write_plugin
from terradask_simulator.aws.switchboard import Switchboard
from terradask_simulator.environment import credentials_path
from terradask_simulator.errors import SimulatorError
from terradask_simulator.hosts.faults import HostFaults
from terradask_simulator.hosts.hosts import Hosts
from terradask_simulator.reservations import bind, claim_slot

__all__ = ["main"]

_log = logging.getLogger(__name__)

#: Seconds from SIGTERM to SIGKILL for hosts when the simulator stops.
_STOP_GRACE_SECONDS = 2.0


class Daemon:
    """One embedded AWS with its hosts."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self.stopped = threading.Event()
        # Take the socket and the range first, to fail before loading anything.
        server, self._slot = bind(options.port), claim_slot()
        folder: Path = options.state_dir
        for name in ("hosts", "wheels"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        write_plugin(folder)
        key = make_owner_key()
        write_owner_key(credentials_path(folder), key)
        self._aws = aws = EmbeddedAws(
            server,
            key,
            self._control,
            public_cidr=self._slot.public_cidr,
            enforce_iam=options.iam,
        )
        faults = HostFaults()
        self._hosts = (
            None
            if options.no_hosts
            else Hosts(folder / "hosts", aws.url, aws.keys, aws.network, faults)
        )
        fill_disk = None if self._hosts is None else self._hosts.fill_disk
        self._switchboard = Switchboard({**aws.switches, **faults.switches(fill_disk)})
        self._reaper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start every part."""
        if self._hosts is not None:
            folder = str(self._options.state_dir / "hosts")
            self._reaper = subprocess.Popen(
                [sys.executable, "-P", "-m", "terradask_simulator.hosts.reaper", folder],
                stdin=subprocess.PIPE,
                start_new_session=True,
            )
        self._aws.start(None if self._hosts is None else self._hosts.reconcile)

    def stop(self) -> None:
        """End hosts, then everything else."""
        self._aws.freeze()
        if self._hosts is not None:
            self._hosts.stop(_STOP_GRACE_SECONDS)
        if self._reaper is not None and self._reaper.stdin is not None:
            self._reaper.stdin.close()
        self._aws.stop()
        if self._reaper is not None:
            self._reaper.wait(15)

    def info(self) -> dict[str, Any]:
        """Return what a client needs to know."""
        return {
            "pid": os.getpid(),
            "port": self._aws.port,
            "endpoint_url": self._aws.url,
            "region": self._options.region,
            "account": ACCOUNT,
            "vpc_cidr": self._slot.vpc_cidr,
            "public_cidr": self._slot.public_cidr,
            "state_dir": str(self._options.state_dir),
            "boot_hosts": self._hosts is not None,
            "enforce_iam": self._options.iam,
        }

    def _control(self, method: str, path: str, query: dict[str, str], body: Any) -> Any:
        answers: dict[str, Callable[[], Any]] = {
            "info": self.info,
            "hosts": self._table,
            "switches": self._switchboard.table,
        }
        if method == "GET" and path in answers:
            return answers[path]()
        match method, path.split("/"):
            case "POST", ["hosts", instance_id, "kill"]:
                return {"killed": self._hosts is not None and self._hosts.kill(instance_id)}
            case "POST", ["switches", name]:
                return self._turn(name, body or {})
            case "POST", ["stop"]:
                self.stopped.set()
                return {}
        return self._aws.answer(method, path, query)

    def _table(self) -> list[dict[str, Any]]:
        return [] if self._hosts is None else self._hosts.table()

    def _turn(self, name: str, arguments: dict[str, Any]) -> dict[str, Any]:
        try:
            return {"undo": self._switchboard.turn(name, arguments)}
        except SimulatorError as error:
            return {"refused": error.as_dict()}


def main(arguments: list[str] | None = None) -> int:
    """Run the embedded AWS until it gets a request to stop."""
    parser = argparse.ArgumentParser(prog="python -m terradask_simulator.daemon")
    parser.add_argument("--state-dir", type=Path, required=True)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--region", default="us-east-1")
    parser.add_argument("--no-hosts", action="store_true")
    parser.add_argument("--iam", action="store_true")
    parser.add_argument("--parent", type=int, default=0)
    parser.add_argument("--temporary", action="store_true")
    options = parser.parse_args(arguments)
    # AWS's times are in UTC; some of moto's are in the machine's time zone.
    os.environ["TZ"] = "UTC"
    time.tzset()
    logging.basicConfig(
        level=logging.INFO,
        format="%(asctime)s %(levelname)s %(name)s: %(message)s",
        stream=sys.stderr,
    )
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    for name in ("botocore", "boto3", "urllib3"):
        logging.getLogger(name).setLevel(logging.WARNING)
    try:
        daemon = Daemon(options)
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
        # No client remains to remove it.
        shutil.rmtree(options.state_dir, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
