"""A workspace that isolates its clusters, and those who work in it."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask_modules.caller_policies import Caller
from terradask_simulator import Simulator

from ..command import in_this_process
from ..waiting import PROCESS_SECONDS
from .acting import ACCOUNT

ROLES = f"arn:aws:iam::{ACCOUNT}:role/terradask/walled/"

SETTINGS = """
[workspace]
name = "walled"
isolation = "cluster"
[network]
vpc_id = "{vpc_id}"
[network.subnets."us-east-1a"]
scheduler = "{public_subnet_id}"
worker = "{private_subnet_id}"
[[network.ingress]]
cidr = "127.0.0.0/8"
[[network.egress]]
destination = "10.1.0.0/16"
ports = [5432]
reason = "orders database"
clusters = ["one"]
[cluster]
n_workers = 1
max_workers = 2
[clusters.one]
"""


@dataclass
class Walled:
    """The workspace, and who works in it."""

    sim: Simulator
    folder: Path
    policies: dict[Caller, list[dict[str, Any]]]
    environs: dict[Caller, dict[str, str]] = field(default_factory=dict)
    name: str = "walled"

    def run(self, caller: Caller, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command as one of the callers."""
        return _done(in_this_process(*arguments, environ=self.environs[caller], folder=self.folder))

    def run_beside(self, caller: Caller, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the command in a process of its own, while this one is another caller."""
        done = subprocess.run(
            [sys.executable, "-m", "terradask", *arguments],
            cwd=self.folder,
            env=self.environs[caller],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        return _done(done)

    def actions(self, role: str) -> set[str]:
        """Return what hosts of a role have done."""
        logged = self.sim.requests().get(f"{ROLES}{role}", ())
        return {one.request.action for one in logged if one.allowed}

    def denied(self, caller: Caller) -> list[str]:
        """Return what was refused."""
        logged = self.sim.requests().get(f"arn:aws:iam::{ACCOUNT}:role/{self.name}-{caller}", ())
        refused = (one.request for one in logged if not one.allowed)
        return [f"{request.action} on {request.resource}" for request in refused]


def _done(ended: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended
