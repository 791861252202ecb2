"""From power on to a task that is computed, and from a host that can't boot to power off: the
launch templates' user data under a real systemd and cloud-init.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import socket
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from terradask import Cluster

from ..waiting import eventually
from .booted_aws import NO_CLUSTER, TEMPLATE, BootedAws, launch
from .machines import Machine, Special

pytestmark = [pytest.mark.boot]

BOOT_SECONDS = 240
#: What a host that can't boot is to report: its reason, or its last lines too.
BROKEN = {
    "another-wheel": "sha256sum",
    "full-disk": r"\((\d|\d\d) MiB left on the disk\)",
    "no-index": r"-m pip .*\n(.*\n)*.*No matching distribution",
}
#: Room for cloud-init, and not for packages.
SMALL_DISK = "24m"
NO_INDEX = "[global]\nindex-url = http://127.0.0.1:9/simple\nretries = 0\n"


@dataclass
class Broken:
    """A machine that can't boot, and its instance."""

    aws: BootedAws
    instance_id: str

    @property
    def machine(self) -> Machine | None:
        return self.aws.power.machines.get(self.instance_id)

    def report(self) -> dict[str, Any]:
        """Return what the host has reported, or nothing."""
        with contextlib.closing(self.aws.sim.client("s3")) as s3:
            bucket = s3.list_buckets()["Buckets"][0]["Name"]
            try:
                answer = s3.get_object(
                    Bucket=bucket, Key=f"clusters/{NO_CLUSTER}/hosts/{self.instance_id}.json"
                )
            except s3.exceptions.NoSuchKey:
                return {}
            return dict(json.loads(answer["Body"].read()))

    def console(self) -> str:
        """Return its machine's log."""
        return "" if self.machine is None else self.machine.console()

    def state(self) -> str:
        """Return the instance's state in EC2."""
        with contextlib.closing(self.aws.sim.client("ec2")) as ec2:
            found = ec2.describe_instances(InstanceIds=[self.instance_id])["Reservations"]
            return str(found[0]["Instances"][0]["State"]["Name"])


@pytest.fixture(scope="module")
def broken(aws: BootedAws) -> dict[str, Broken]:
    """Machines that can't boot. They power off a minute after they have found out, which the other
    test does not wait for.
    """
    aws.power.special = {
        "full-disk": Special(disk=SMALL_DISK),
        "no-index": Special(files={"etc/pip.conf": NO_INDEX}),
    }
    with (
        contextlib.closing(aws.sim.client("ec2")) as ec2,
        contextlib.closing(aws.sim.client("s3")) as s3,
    ):
        planted = _planted_user_data(s3, _user_data(ec2))
        besides = {"another-wheel": {"UserData": planted}}
        return {name: Broken(aws, launch(ec2, name, **besides.get(name, {}))) for name in BROKEN}


def _user_data(ec2: Any) -> str:
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateName=TEMPLATE, Versions=["$Latest"]
    )
    data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return base64.b64decode(data["UserData"]).decode()


def _planted_user_data(s3: Any, user_data: str) -> str:
    """Put a wheel with other code into the bucket, and return user data that leads to it: its key
    changes nothing for the other hosts, which boot meanwhile.
    """
    found = re.search(r'"bucket": "(?P<bucket>[^"]+)".*"key": "(?P<key>[^"]+)"', user_data)
    assert found is not None
    s3.put_object(Bucket=found["bucket"], Key="host/planted.whl", Body=b"other code")
    return user_data.replace(found["key"], "host/planted.whl")


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
@pytest.mark.usefixtures("broken")
def test_a_cluster_boots_computes_and_powers_off(aws: BootedAws) -> None:
    from distributed import Client

    with Cluster("boot", n_workers=1, connect="private", timeout=BOOT_SECONDS) as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(1, timeout=BOOT_SECONDS)
            assert client.submit(sum, range(100)).result() == 4950
            addresses = [cluster.scheduler_address, *client.scheduler_info()["workers"]]
            where = client.submit(socket.gethostname).result()
        machines = {machine.address: machine for machine in aws.power.machines.values()}
        mine = [machines[urlsplit(address).hostname or ""] for address in addresses]
    assert where == f"ip-{mine[1].address.replace('.', '-')}"
    for machine in mine:
        eventually(lambda machine=machine: machine.is_off, explain=machine.console)


@pytest.mark.parametrize("name", BROKEN)
def test_a_host_that_can_not_boot_says_why_and_powers_off(
    broken: dict[str, Broken], name: str
) -> None:
    host = broken[name]
    report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
    assert report["state"] == "failed"
    assert re.search(BROKEN[name], "\n".join([report["reason"], *report["log_tail"]]))
    eventually(lambda: host.machine is not None and host.machine.is_off, explain=host.console)
    eventually(lambda: host.state() in ("shutting-down", "terminated"))


def test_every_fact_was_asked_for_with_a_token(aws: BootedAws, broken: dict[str, Broken]) -> None:
    assert broken
    assert not aws.without_token
