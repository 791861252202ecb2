"""Switches for what goes wrong on the way and on hosts: hidden instances, lost answers, cut
networks, full disks.
"""

from __future__ import annotations

import contextlib
import socket
import time

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError
from tests.waiting import HANG_SECONDS, eventually

from terradask_simulator import SimulatorError

pytestmark = [pytest.mark.simulator]

#: Listens as a scheduler does, and tries to write 2 MiB every tenth of a second.
PROGRAM = """
import os, socket, threading, time
from pathlib import Path
from urllib.parse import urlsplit
address = urlsplit(os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]).hostname
server = socket.create_server((address, 8786))

def echo():
    while True:
        peer = server.accept()[0]
        def echo(peer=peer):
            for data in iter(lambda: peer.recv(9), b""):
                peer.sendall(data)

        threading.Thread(target=echo, daemon=True).start()

threading.Thread(target=echo, daemon=True).start()
while True:
    try:
        Path("big").write_bytes(bytes(2 * 1024**2))
        print("written", flush=True)
    except OSError as error:
        print("refused:", error.strerror, flush=True)
    time.sleep(0.1)
"""


def echoes(host) -> bool:
    with (
        socket.create_connection((host.public_address, 8786), timeout=1) as peer,
        contextlib.suppress(OSError),
    ):
        peer.sendall(b"hello")
        return peer.recv(9) == b"hello"
    return False


@pytest.fixture
def group(network):
    return network.group(f"g-{time.monotonic_ns()}", network.template())


@pytest.fixture(scope="module")
def host(network):
    network.ec2.authorize_security_group_ingress(
        GroupId=network.security_group,
        IpProtocol="tcp",
        FromPort=8786,
        ToPort=8786,
        CidrIp="127.0.0.1/32",
    )
    key, sha256 = network.wheel(PROGRAM)
    name = network.group("faulty", network.template(network.user_data(key, sha256)))
    network.want(name, 1)
    (host,) = eventually(
        lambda: [
            host for host in network.sim.hosts() if host.state == "running" and host.public_address
        ]
    )
    eventually(lambda: "written" in host.log_path.read_text())
    return host


def test_new_instances_are_hidden_for_a_while(network, group):
    with network.sim.hide_instances(600.0, seed=3):
        network.want(group, 3)
        eventually(lambda: len(network.sim.running_instances()) >= 3)
        assert len(network.members(group)) < 3
        assert network.describe(group)["DesiredCapacity"] == 3
        born = [
            one
            for one, told in network.sim.history()["instances"].items()
            if told["group"] == group
        ]
        hidden = next(one for one in born if one not in network.members(group))
        for call in (network.ec2.describe_instances, network.ec2.terminate_instances):
            with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
                call(InstanceIds=[hidden])
    eventually(lambda: len(network.members(group)) == 3)
    assert network.instances([hidden])[0]["State"]["Name"] == "running"
    assert {
        one for one, told in network.sim.history()["instances"].items() if told["group"] == group
    } == set(born)


def test_new_instances_show_by_themselves(network, group):
    with network.sim.hide_instances(0.5, seed=3):
        network.want(group, 3)
        eventually(lambda: len(network.members(group)) == 3)
    assert (
        len([one for one in network.sim.history()["instances"].values() if one["group"] == group])
        == 3
    )


def test_what_was_hidden_shows_when_the_switch_is_turned_back(network, group):
    with network.sim.hide_instances(600.0):
        network.want(group, 2)
        eventually(lambda: network.sim.history()["groups"][-1]["instances"])
        assert network.members(group) == []
    assert len(network.members(group)) == 2


def test_a_lost_answer_is_of_a_call_that_was_served(network, group):
    once = network.sim.session().client(
        "autoscaling",
        endpoint_url=network.sim.endpoint_url,
        config=Config(retries={"total_max_attempts": 1}),
    )
    with contextlib.closing(once), network.sim.drop_answers("autoscaling:SetDesired*", times=1):
        network.describe(group)
        with pytest.raises(ConnectionClosedError):
            once.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=2)
        assert network.describe(group)["DesiredCapacity"] == 2
        once.set_desired_capacity(AutoScalingGroupName=group, DesiredCapacity=1)
    assert network.describe(group)["DesiredCapacity"] == 1


def test_an_sdk_that_asks_again_meets_what_its_first_attempt_did(network):
    with (
        network.sim.drop_answers("s3:PutObject", times=1),
        pytest.raises(ClientError, match="PreconditionFailed"),
        contextlib.closing(network.sim.client("s3")) as s3,
    ):
        s3.put_object(Bucket=network.bucket, Key="once", Body=b"x", IfNoneMatch="*")


def test_a_cut_breaks_what_is_connected_and_answers_nobody_for_a_while(network, host):
    with socket.create_connection((host.public_address, 8786), timeout=HANG_SECONDS) as connected:
        connected.sendall(b"hello")
        assert connected.recv(9) == b"hello"
        with network.sim.cut_network(host.instance_id, seconds=60):
            assert connected.recv(9) == b""
            assert not echoes(host)
    eventually(lambda: echoes(host))


def test_a_full_disk_takes_no_large_file(network, host):
    network.sim.fill_disk(host.instance_id)
    eventually(lambda: "refused: File too large" in host.log_path.read_text())
    with pytest.raises(SimulatorError, match="no such machine"):
        network.sim.fill_disk("i-0")


def test_history_tells_what_was_wanted_and_who_lived_when(network, group):
    first = network.scaled(group, 2)
    network.want(group, 1)
    eventually(lambda: len(network.members(group)) == 1)
    told = network.sim.history()
    rows = [
        (row["desired"], len(row["instances"])) for row in told["groups"] if row["group"] == group
    ]
    assert rows[-1] == (1, 1)
    assert (2, 2) in rows
    gone = told["instances"][next(one for one in first if one not in network.members(group))]
    assert gone["born"] <= gone["ended"] <= time.time()
    assert gone["tags"]["terradask:cluster"] == group
