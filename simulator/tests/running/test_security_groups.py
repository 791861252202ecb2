"""Security groups decide what processes of hosts connect to: what is refused gets no answer."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.small_network import SmallNetwork
from tests.waiting import eventually

pytestmark = pytest.mark.simulator

#: Runs each program that appears in its folder, and keeps what that leaves as `answer`.
HOST = """
import json, os, pathlib, time
root = pathlib.Path(os.environ["TERRADASK_HOST_ROOT"])
kept = {}
while True:
    for program in root.glob("*.program"):
        code = program.read_text()
        program.unlink()
        exec(code, kept)
        answer = program.with_suffix(".part")
        answer.write_text(json.dumps(kept["answer"]))
        answer.rename(program.with_suffix(".answer"))
    time.sleep(0.02)
"""

CONNECT = """
import socket, time
before = time.monotonic()
try:
    kept = socket.create_connection(({host!r}, {port}), timeout=0.5)
    answer = kept.recv(100).decode()
except OSError as error:
    answer = type(error).__name__, round(time.monotonic() - before, 1)
"""

ASK_AWS = """
import boto3, botocore
from botocore.config import Config
config = Config(connect_timeout=0.5, retries={"total_max_attempts": 1})
try:
    boto3.client("sts", config=config).get_caller_identity()
    answer = "answered"
except botocore.exceptions.BotoCoreError as error:
    answer = type(error).__name__
"""

TIMED_OUT = ["TimeoutError", 0.5]


class Host:
    """A host of one interface, whose group is its own."""

    def __init__(self, network: SmallNetwork, name: str) -> None:
        self.network = network
        self.group = self._make_group(name)
        interfaces = [{"DeviceIndex": 0, "AssociatePublicIpAddress": True, "Groups": [self.group]}]
        key, sha256 = network.wheel(HOST)
        template = network.template(network.user_data(key, sha256), NetworkInterfaces=interfaces)
        self._name = network.group(name, template)
        network.want(self._name, 1)
        self._numbers = itertools.count()
        self._host = eventually(self._find)
        self.address = self._host.private_address

    def _make_group(self, name: str) -> str:
        made = self.network.ec2.create_security_group(
            GroupName=name, Description="a test's", VpcId=self.network.vpc_id
        )
        return str(made["GroupId"])

    def _find(self) -> Any:
        hosts = (one for one in self.network.sim.hosts() if one.cluster == self._name)
        return next((one for one in hosts if one.state == "running"), None)

    def run(self, program: str) -> Any:
        """Run a program in its process, and return what it leaves as `answer`."""
        root = self._host.log_path.parent / "root"
        path = root / f"{next(self._numbers)}.program"
        path.with_suffix(".new").write_text(program)
        path.with_suffix(".new").rename(path)
        return json.loads(eventually(lambda: _text(path.with_suffix(".answer"))))

    def connect(self, host: str, port: int) -> Any:
        return self.run(CONNECT.format(host=host, port=port))

    def let_out(self, port: int, peer: str) -> Callable[[], None]:
        """Add a rule to its group; return what removes it."""
        return allow(self.network, self.group, "egress", "tcp", port, peer)

    def let_nothing_out(self) -> None:
        everything = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
        self.network.ec2.revoke_security_group_egress(
            GroupId=self.group, IpPermissions=[everything]
        )


def _text(path: Any) -> str:
    return path.read_text() if path.exists() else ""


def allow(
    network: SmallNetwork, group: str, way: str, protocol: str, port: int, peer: str
) -> Callable[[], None]:
    """Add a rule to a group, for a block or another group; return what removes it."""
    whom = (
        {"UserIdGroupPairs": [{"GroupId": peer}]}
        if peer.startswith("sg-")
        else {"IpRanges": [{"CidrIp": peer}]}
    )
    rule = {"IpProtocol": protocol, "FromPort": port, "ToPort": port, **whom}
    asked = {"GroupId": group, "IpPermissions": [rule]}
    getattr(network.ec2, f"authorize_security_group_{way}")(**asked)
    return lambda: getattr(network.ec2, f"revoke_security_group_{way}")(**asked)


@contextmanager
def answering(address: str, port: int = 0) -> Iterator[int]:
    """Answer whoever connects, and keep the connections; yield the port."""
    with socket.create_server((address, port)) as server, ExitStack() as kept:

        def serve() -> None:
            with ExitStack() as connections:
                while True:
                    try:
                        connection, _ = server.accept()
                    except OSError:
                        return
                    connections.enter_context(connection).sendall(b"hello")

        thread = threading.Thread(target=serve)
        thread.start()
        kept.callback(thread.join)
        kept.callback(server.shutdown, socket.SHUT_RDWR)
        yield int(server.getsockname()[1])


@pytest.fixture(scope="module")
def host(network: SmallNetwork) -> Host:
    return Host(network, "connecting")


@pytest.fixture(scope="module")
def database(network: SmallNetwork) -> Iterator[tuple[str, str, int]]:
    """A group, and the address and port that it guards."""
    group = network.ec2.create_security_group(
        GroupName="database", Description="a database", VpcId=network.vpc_id
    )["GroupId"]
    address = network.sim.add_interface(network.subnets[1], [group], name="orders.db.internal")
    with answering(address, 5432) as port:
        yield group, address, port


def test_both_groups_have_to_admit_a_connection(
    network: SmallNetwork, host: Host, database: tuple[str, str, int]
) -> None:
    group, address, port = database
    assert host.connect(address, port) == TIMED_OUT
    close = allow(network, group, "ingress", "tcp", port, host.group)
    assert eventually(lambda: host.connect(address, port) == "hello")
    assert host.connect("orders.db.internal", port) == "hello"
    close()
    assert eventually(lambda: host.connect(address, port) == TIMED_OUT)
    assert host.connect("no.db.internal", port)[0] == "gaierror"


def test_a_rule_of_the_hosts_group_lets_out(
    network: SmallNetwork, database: tuple[str, str, int]
) -> None:
    group, address, port = database
    host = Host(network, "let-out")
    close = allow(network, group, "ingress", "tcp", port, f"{host.address}/32")
    assert eventually(lambda: host.connect(address, port) == "hello")
    assert host.run(ASK_AWS) == "answered"
    host.let_nothing_out()
    assert eventually(lambda: host.connect(address, port) == TIMED_OUT)
    for peer in (f"{address}/32", group):
        forbid = host.let_out(port, peer)
        assert eventually(lambda: host.connect(address, port) == "hello")
        forbid()
        assert eventually(lambda: host.connect(address, port) == TIMED_OUT)
    close()


def test_established_connections_stay(
    network: SmallNetwork, host: Host, database: tuple[str, str, int]
) -> None:
    group, address, port = database
    close = allow(network, group, "ingress", "tcp", port, host.group)
    assert eventually(lambda: host.connect(address, port) == "hello")
    host.run(
        f"established = socket.create_connection(({address!r}, {port}), 9)\n"
        "answer = established.recv(100).decode()"
    )
    close()
    assert eventually(lambda: host.connect(address, port) == TIMED_OUT)
    assert host.run("answer = established.send(b'still there')") == len(b"still there")


def test_aws_is_reached_through_443_or_an_endpoint(network: SmallNetwork) -> None:
    host = Host(network, "without-aws")
    assert host.run(ASK_AWS) == "answered"
    host.let_nothing_out()
    assert eventually(lambda: host.run(ASK_AWS) == "ConnectTimeoutError")
    # The metadata service is none of the network's.
    assert host.run(
        "import os, urllib.request, urllib.error\n"
        "try: urllib.request.urlopen(os.environ['AWS_EC2_METADATA_SERVICE_ENDPOINT'], timeout=9)\n"
        "except urllib.error.HTTPError as error: answer = error.code"
    )
    forbid = host.let_out(443, "0.0.0.0/0")
    assert eventually(lambda: host.run(ASK_AWS) == "answered")
    forbid()
    assert eventually(lambda: host.run(ASK_AWS) == "ConnectTimeoutError")
    guard = network.ec2.create_security_group(
        GroupName="endpoints", Description="of AWS", VpcId=network.vpc_id
    )["GroupId"]
    endpoint = network.ec2.create_vpc_endpoint(
        VpcEndpointType="Interface",
        VpcId=network.vpc_id,
        ServiceName="com.amazonaws.us-east-1.sts",
        SubnetIds=network.subnets[:1],
        SecurityGroupIds=[guard],
    )["VpcEndpoint"]
    host.let_out(443, network.sim.vpc_cidr)
    assert host.run(ASK_AWS) == "ConnectTimeoutError"
    allow(network, guard, "ingress", "tcp", 443, host.group)
    assert eventually(lambda: host.run(ASK_AWS) == "answered")
    network.ec2.delete_vpc_endpoints(VpcEndpointIds=[endpoint["VpcEndpointId"]])
    assert eventually(lambda: host.run(ASK_AWS) == "ConnectTimeoutError")


ASYNCIO = """
import asyncio
async def connect():
    try:
        reader, writer = await asyncio.wait_for(asyncio.open_connection({host!r}, {port}), 0.5)
        text = (await reader.read(100)).decode()
        writer.close()
        return text
    except TimeoutError:
        return "timed out"
answer = asyncio.run(connect())
"""

DATAGRAM = """
import socket
with socket.socket(type=socket.SOCK_DGRAM) as one:
    one.settimeout(0.5)
    sent = one.sendto(b"hello", ({host!r}, {port}))
    try:
        answer = sent, one.recv(100).decode()
    except TimeoutError:
        answer = sent, "timed out"
"""


def test_event_loops_and_datagrams_are_filtered_too(
    network: SmallNetwork, host: Host, database: tuple[str, str, int]
) -> None:
    group, address, port = database
    stream, datagram = (text.format(host=address, port=port) for text in (ASYNCIO, DATAGRAM))
    with socket.socket(type=socket.SOCK_DGRAM) as echo:
        echo.bind((address, port))

        def answer() -> None:
            text, peer = echo.recvfrom(100)
            echo.sendto(text, peer)

        thread = threading.Thread(target=answer)
        thread.start()
        assert host.run(stream) == "timed out"
        assert host.run(datagram) == [5, "timed out"]
        close = allow(network, group, "ingress", "tcp", port, host.group)
        assert eventually(lambda: host.run(stream) == "hello")
        assert host.run(datagram) == [5, "timed out"]
        allow(network, group, "ingress", "udp", port, host.group)
        assert eventually(lambda: host.run(datagram) == [5, "hello"])
        close()
        thread.join()
