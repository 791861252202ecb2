"""From power on to a task that is computed, and from a host that can't boot to power off: the
launch templates' user data under a real systemd and cloud-init.
"""

from __future__ import annotations

import base64
import contextlib
import os
import re
import socket
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from terradask import Cluster

from ..waiting import eventually
from .booted_aws import (
    BOOT_SECONDS,
    LAKE,
    LAKE_FILE,
    LAKE_TEXT,
    NO_CLUSTER,
    TEMPLATE,
    BootedAws,
    launch,
)
from .machines import Machine, Special
from .wires import answer_at

pytestmark = [pytest.mark.boot]

#: What the unit writes before it starts: a scheduler may listen at 443.
LOWEST_PORT_FILE = "/proc/sys/net/ipv4/ip_unprivileged_port_start"

#: In another network, to which the router leads.
PEERED_ADDRESS = "10.99.0.5"
#: What a host that can't boot is to report: its reason, or its last lines too.
BROKEN = {
    "another-wheel": "sha256sum",
    "missing-bucket": r"network\.mounts: /data/lake \(bucket missing\) can't be mounted: .*\[CRT\]",
    "full-disk": r"\((\d|\d\d) MiB left on the disk\)",
}
#: Room for cloud-init, and not for packages.
SMALL_DISK = "24m"
#: What cloud-init prints last.
ENDED = re.compile(r"^cloud-init: Cloud-init v\. .* finished at ", re.MULTILINE)
#: What a worker's host logs that has its environment from the scheduler's.
FETCHED = re.compile(r"fetched the environment, \d+ bytes")
#: Where nothing answers.
NO_INDEX = "http://127.0.0.1:9/simple"
NO_INDEX_FILES = {
    "etc/pip.conf": f"[global]\nindex-url = {NO_INDEX}\nretries = 0\n",
    "etc/systemd/system/terradask-host.service.d/index.conf": (
        f"[Service]\nEnvironment=UV_DEFAULT_INDEX={NO_INDEX}\n"
    ),
}


def _reading() -> Callable[[str], tuple[str, str, str]]:
    """Return a function that hosts, which don't have this module, get whole."""

    def read(name: str) -> tuple[str, str, str]:
        """Return where it is mounted, a file's text, and why none can be written beside it."""
        folder, refusal = Path(os.environ["TERRADASK_MOUNT_DATA_LAKE"]), ""
        try:
            (folder / "new").write_text("")
        except OSError as error:
            refusal = str(error.strerror)
        return str(folder), (folder / name).read_text(), refusal

    return read


@dataclass
class LoneHost:
    """A machine of no run, and its instance."""

    aws: BootedAws
    instance_id: str

    @property
    def machine(self) -> Machine | None:
        return self.aws.power.machines.get(self.instance_id)

    def report(self) -> dict[str, Any]:
        """Return what the host has reported, or nothing."""
        return self.aws.report(NO_CLUSTER, self.instance_id)

    def log(self) -> str:
        """Return what it has written to CloudWatch."""
        return self.aws.log(NO_CLUSTER, self.instance_id)

    def console(self) -> str:
        """Return its machine's log."""
        return "" if self.machine is None else self.machine.console()

    def state(self) -> str:
        """Return the instance's state in EC2."""
        with contextlib.closing(self.aws.sim.client("ec2")) as ec2:
            found = ec2.describe_instances(InstanceIds=[self.instance_id])["Reservations"]
            return str(found[0]["Instances"][0]["State"]["Name"])


@pytest.fixture(scope="module")
def broken(aws: BootedAws) -> dict[str, LoneHost]:
    """Machines that can't boot. They power off a minute after they have found out, which the tests
    of other machines, which run first, do not wait for.
    """
    aws.power.special = {
        "full-disk": Special(disk=SMALL_DISK),
    }
    with (
        contextlib.closing(aws.sim.client("ec2")) as ec2,
        contextlib.closing(aws.sim.client("s3")) as s3,
    ):
        given = user_data(ec2)
        besides = {
            "another-wheel": {"UserData": _planted_user_data(s3, given)},
            "missing-bucket": {"UserData": given.replace('"lake"', '"missing"')},
        }
        return {name: LoneHost(aws, launch(ec2, name, **besides.get(name, {}))) for name in BROKEN}


def user_data(ec2: Any) -> str:
    """Return the user data of the network's template for workers."""
    versions = ec2.describe_launch_template_versions(
        LaunchTemplateName=TEMPLATE, Versions=["$Latest"]
    )
    data = versions["LaunchTemplateVersions"][0]["LaunchTemplateData"]
    return base64.b64decode(data["UserData"]).decode()


def _planted_user_data(s3: Any, user_data: str) -> str:
    """Put a wheel with other code into the bucket, with the packages beside it, and return user
    data that leads to it: its key changes nothing for the other hosts, which boot meanwhile.
    """
    found = re.search(
        r'"bucket": "(?P<bucket>[^"]+)".*"key": "(?P<folder>[^"]+)/(?P<name>[^"/]+)"', user_data
    )
    assert found is not None
    bucket, folder, name = found["bucket"], found["folder"], found["name"]
    for entry in s3.list_objects_v2(Bucket=bucket, Prefix=f"{folder}/")["Contents"]:
        key = entry["Key"]
        source = {"Bucket": bucket, "Key": key}
        planted = key.replace(folder, "host/planted", 1)
        s3.copy_object(Bucket=bucket, Key=planted, CopySource=source)
    s3.put_object(Bucket=bucket, Key=f"host/planted/{name}", Body=b"other code")
    return user_data.replace(folder, "host/planted")


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
@pytest.mark.usefixtures("broken")
def test_a_cluster_boots_computes_and_powers_off(aws: BootedAws) -> None:
    from distributed import Client

    with Cluster("boot", n_workers=1, connect="private", timeout=BOOT_SECONDS) as cluster:
        with Client(cluster) as client:
            client.wait_for_workers(1, timeout=BOOT_SECONDS)
            assert client.submit(sum, range(100)).result() == 4950
            found = client.submit(_reading(), LAKE_FILE).result()
            assert found == (LAKE["path"], LAKE_TEXT, "Read-only file system")
            addresses = [cluster.scheduler_address, *client.scheduler_info()["workers"]]
            where = client.submit(socket.gethostname).result()
            assert client.submit(Path(LOWEST_PORT_FILE).read_text).result().split() == ["80"]
            _check_security_groups(aws, client)
            _check_restart(client)
            ids = {machine.address: id_ for id_, machine in aws.power.machines.items()}
            mine = [ids[urlsplit(address).hostname or ""] for address in addresses]
            eventually(lambda: FETCHED.search(aws.log("boot", mine[1])))
            assert "uv pip install" not in aws.log("boot", mine[1])
            # What cloud-init and boot.sh print, to its end.
            for each in mine:
                eventually(lambda each=each: ENDED.search(aws.log("boot", each)))
                assert "\nterradask-boot: terradask-host.service starts\n" in aws.log("boot", each)
        machines = [aws.power.machines[each] for each in mine]
    assert where == f"ip-{machines[1].address.replace('.', '-')}"
    for machine in machines:
        eventually(lambda machine=machine: machine.is_off, explain=machine.console)


def _check_restart(client: Any) -> None:
    """Check that a killed host program starts again on the same machine, and its worker."""

    def kill_program() -> None:
        import os
        import signal
        from pathlib import Path

        parent = os.getppid()
        while b"terradask_host\0" not in Path(f"/proc/{parent}/cmdline").read_bytes():
            parent = int(Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1])
        os.kill(parent, signal.SIGKILL)

    def worker() -> tuple[str, int] | None:
        found = client.run(os.getpid, on_error="ignore")
        return next(((urlsplit(each).hostname, pid) for each, pid in found.items()), None)

    before = worker()
    assert before is not None
    client.run(kill_program, on_error="ignore")

    def restarted() -> tuple[str, int] | None:
        found = worker()
        return None if found == before else found

    after = eventually(restarted, seconds=BOOT_SECONDS)
    assert after[0] == before[0]


def _check_security_groups(aws: BootedAws, client: Any) -> None:
    """Check that tasks reach a database in the network with a rule of its own group, and one of a
    peered network with a rule of workers' group too.
    """

    def connect(address: str) -> str:
        try:
            socket.create_connection((address, 5432), timeout=1).close()
        except OSError as error:
            return type(error).__name__
        return "connected"

    def tried(address: str) -> str:
        return str(client.submit(connect, address, pure=False).result())

    with contextlib.closing(aws.sim.client("ec2")) as ec2:
        (workers,) = (
            group["GroupId"]
            for group in ec2.describe_security_groups()["SecurityGroups"]
            if group["GroupName"] == "terradask-default-worker"
        )
        (subnet,) = ec2.describe_subnets(
            Filters=[{"Name": "tag:terradask:workspace", "Values": ["default"]}]
        )["Subnets"][:1]
        database = ec2.create_security_group(
            GroupName="database", Description="of the test", VpcId=subnet["VpcId"]
        )["GroupId"]
        address = aws.sim.add_interface(subnet["SubnetId"], [database])
        rule = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}
        with ExitStack() as servers:
            for each in (address, PEERED_ADDRESS):
                answer_at(each)
                servers.enter_context(socket.create_server((each, 5432)))
            eventually(lambda: tried(address) == "TimeoutError")
            ec2.authorize_security_group_ingress(
                GroupId=database,
                IpPermissions=[{**rule, "UserIdGroupPairs": [{"GroupId": workers}]}],
            )
            eventually(lambda: tried(address) == "connected")
            assert tried(PEERED_ADDRESS) == "TimeoutError"
            ec2.authorize_security_group_egress(
                GroupId=workers,
                IpPermissions=[{**rule, "IpRanges": [{"CidrIp": f"{PEERED_ADDRESS}/32"}]}],
            )
            eventually(lambda: tried(PEERED_ADDRESS) == "connected")


def test_a_host_needs_no_index_for_its_own_program(aws: BootedAws) -> None:
    aws.power.special["no-index"] = Special(files=NO_INDEX_FILES)
    with contextlib.closing(aws.sim.client("ec2")) as ec2:
        host = LoneHost(aws, launch(ec2, "no-index"))
        report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
        assert report["state"] == "booting", host.console()
        ec2.terminate_instances(InstanceIds=[host.instance_id])
    eventually(lambda: host.machine is not None and host.machine.is_off, explain=host.console)


@pytest.mark.parametrize("name", BROKEN)
def test_a_host_that_can_not_boot_says_why_and_powers_off(
    aws: BootedAws, broken: dict[str, LoneHost], name: str
) -> None:
    host = broken[name]
    report = eventually(host.report, seconds=BOOT_SECONDS, explain=host.console)
    assert report["state"] == "failed"
    assert re.search(BROKEN[name], "\n".join([report["reason"], *report["log_tail"]]))
    eventually(lambda: host.machine is not None and host.machine.is_off, explain=host.console)
    eventually(lambda: host.state() in ("shutting-down", "terminated"))
    log = aws.log(NO_CLUSTER, host.instance_id)
    assert "cloud-init: Cloud-init v. " in log
    assert re.search(r"^terradask-boot: ERROR: boot\.sh failed(: | at line )", log, re.MULTILINE)


def test_every_fact_was_asked_for_with_a_token(aws: BootedAws, broken: dict[str, LoneHost]) -> None:
    assert broken
    assert not aws.without_token
