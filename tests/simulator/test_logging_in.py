"""Who may log in at hosts by EC2 Instance Connect: who holds the policy that the documentation has,
at schedulers, and nobody else.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from .acting import Account, code_of, refused

pytestmark = [pytest.mark.simulator]


@contextlib.contextmanager
def launched(ec2: Any, role: str) -> Iterator[str]:
    """Launch an instance with the tags of a host, and end it."""
    tags = {"terradask:workspace": "default", "terradask:role": role}
    tagged = [{"Key": key, "Value": value} for key, value in tags.items()]
    (instance,) = ec2.run_instances(
        ImageId="ami-12c6146b",
        InstanceType="t3.micro",
        MinCount=1,
        MaxCount=1,
        TagSpecifications=[{"ResourceType": "instance", "Tags": tagged}],
    )["Instances"]
    try:
        yield instance["InstanceId"]
    finally:
        ec2.terminate_instances(InstanceIds=[instance["InstanceId"]])


def test_the_documented_policy_logs_in_at_schedulers_and_nowhere_else(
    sim: Simulator, policies: dict[str, list[dict[str, Any]]]
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "connecting.md").read_text()
    (documented,) = (json.loads(text) for text in re.findall(r"```json\n(.*?)```", page, re.DOTALL))
    with contextlib.ExitStack() as clients, sim.applied():
        ec2 = Account(sim, sim.environ, clients).client("ec2")
        hosts = {
            role: clients.enter_context(launched(ec2, role)) for role in ("scheduler", "worker")
        }

        def answer(of: Callable[..., str], role: str, user: str, *held: Any) -> str:
            account = Account(sim, sim.environ_of("person-who-logs-in", *held), clients)
            return of(
                account.client("ec2-instance-connect").send_ssh_public_key,
                InstanceId=hosts[role],
                InstanceOSUser=user,
                SSHPublicKey="ssh-ed25519 " + "A" * 256,
            )

        assert answer(code_of, "scheduler", "ec2-user", documented) == ""
        action = "ec2-instance-connect:SendSSHPublicKey"
        assert action in answer(refused, "scheduler", "root", documented)
        assert action in answer(refused, "worker", "ec2-user", documented)
        for generated in policies.values():
            assert action in answer(refused, "scheduler", "ec2-user", *generated)
