"""Hosts of the embedded AWS boot from user data and metadata, and end as instances do."""

from __future__ import annotations

import json
import os
import signal
import socket
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.waiting import HANG_SECONDS, eventually

from terradask_simulator import SimulatorError
from terradask_simulator.process import request_control

from .host_metadata import Imds, metadata_of

pytestmark = pytest.mark.simulator

HOST_THAT_STAYS_UP = """
import json, os, pathlib, sys, time
root = pathlib.Path(os.environ["TERRADASK_HOST_ROOT"])
host = json.loads((root / "etc/terradask/host.json").read_text())
facts = {"arguments": sys.argv[1:], "environ": dict(os.environ), "host": host}
(root / "facts.part").write_text(json.dumps(facts))
(root / "facts.part").rename(root / "facts.json")
print("up", flush=True)
time.sleep(600)
"""

HOST_THAT_EXITS_1 = "import sys; print('this host fails', flush=True); sys.exit(1)"

HOST_THAT_LEAVES = "print('this host leaves', flush=True)"

HOST_THAT_POWERS_OFF = (
    "import subprocess, time; subprocess.run(['systemctl', 'poweroff']); time.sleep(600)"
)

HOST_THAT_IGNORES_SIGTERM_AND_HAS_A_CHILD = """
import signal, subprocess, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
deaf = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"
subprocess.Popen([sys.executable, "-c", deaf], start_new_session=True)
print("up", flush=True)
time.sleep(600)
"""

HOST_THAT_ANSWERS = """
import socket, urllib.request, os
imds = os.environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
put = urllib.request.Request(imds + "/latest/api/token", method="PUT", headers=ttl)
token = urllib.request.urlopen(put).read().decode()
shown = {"X-aws-ec2-metadata-token": token}
get = urllib.request.Request(imds + "/latest/meta-data/local-ipv4", headers=shown)
address = urllib.request.urlopen(get).read().decode()
server = socket.create_server((address, 8786))
print("up", flush=True)
while True:
    connection, peer = server.accept()
    connection.sendall(b"hello from " + address.encode())
    connection.close()
"""

HOST_THAT_READS_PARQUET = """
import boto3, json, os, pathlib, s3fs, pandas, time
import pyarrow.parquet
root = pathlib.Path(os.environ["TERRADASK_HOST_ROOT"])
bucket = json.loads((root / "etc/terradask/host.json").read_text())["bucket"]
frame = pandas.read_parquet(f"s3://{bucket}/data/part-0.parquet")
s3fs.S3FileSystem.clear_instance_cache()
table = pyarrow.parquet.read_table(f"{bucket}/data/part-0.parquet", filesystem=s3fs.S3FileSystem())
caller = boto3.client("sts").get_caller_identity()["Arn"]
answer = json.dumps([int(frame["x"].sum()), table.num_rows, caller])
boto3.client("s3").put_object(Bucket=bucket, Key="answer.json", Body=answer)
print("up", flush=True)
time.sleep(600)
"""


@pytest.fixture
def booted(network: Any, request: pytest.FixtureRequest):
    """Boot hosts with a program; they are ended afterwards."""
    groups: list[str] = []

    def boot(program: str, number: int = 1, **settings: Any) -> tuple[str, list[Any]]:
        unit = settings.pop("unit", None)
        key, sha256 = network.wheel(program)
        user_data = network.user_data(key, sha256, *([unit] if unit else []))
        group = network.group(
            f"hosts-{request.node.name[:40]}-{len(groups)}", network.template(user_data, **settings)
        )
        groups.append(group)
        network.scaled(group, number)

        def hosts() -> list[Any]:
            return [
                host
                for host in network.sim.hosts()
                if host.cluster == group and host.state == "running"
            ]

        return group, eventually(lambda: hosts() if len(hosts()) == number else None)

    return boot


def say_up(host: Any) -> bool:
    return host.log_path.exists() and "\nup\n" in host.log_path.read_text()


def processes_of(host: Any) -> list[int]:
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ()
                .get("TERRADASK_HOST_ROOT", "")
                .startswith(str(host.log_path.parent))
            ):
                found.append(process.pid)
        except psutil.Error:
            continue
    return found


def test_the_program_runs_from_its_wheel_in_a_clean_environment(network, booted):
    group, (host,) = booted(HOST_THAT_STAYS_UP)
    root = host.log_path.parent / "root"
    eventually((root / "facts.json").exists)
    facts = json.loads((root / "facts.json").read_text())
    assert facts["arguments"] == ["--greeting", "hello"]
    assert facts["host"]["bucket"] == network.bucket
    environ = facts["environ"]
    assert environ["TERRADASK_HOST_ROOT"] == str(root)
    assert environ["AWS_ENDPOINT_URL"] == network.sim.endpoint_url
    endpoint = environ["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
    assert endpoint.startswith(f"http://{host.private_address}:1338/")
    assert environ["TERRADASK_HOST_CPU_COUNT"] == "4"
    assert environ["TERRADASK_HOST_MEMORY_BYTES"] == str(16 * 1024**3)
    assert "AWS_ACCESS_KEY_ID" not in environ
    assert environ["HOME"] == str(host.log_path.parent)
    assert os.access(root / "opt/terradask/boot.sh", os.X_OK)
    assert (host.role, host.cluster, host.public_address is not None) == ("worker", group, True)
    # The role fetched the wheel, and nobody else did.
    read = network.sim.calls(by="resource")[network.role]
    assert {key.split("/")[1] for key, calls in read.items() if "s3:GetObject" in calls} == {"host"}


def test_ending_the_instance_ends_every_process_and_its_listeners(network, booted):
    group, (host,) = booted(HOST_THAT_IGNORES_SIGTERM_AND_HAS_A_CHILD)
    eventually(lambda: say_up(host) and len(processes_of(host)) == 2)
    network.want(group, 0)
    eventually(lambda: not processes_of(host))
    eventually(lambda: not [one for one in network.sim.hosts() if one.cluster == group])
    with pytest.raises(OSError, match="refused"):
        Imds(f"http://{host.private_address}:1338").token()


def test_a_program_that_ends_well_powers_its_instance_off_and_the_group_replaces_it(
    network, booted
):
    group, (host,) = booted(HOST_THAT_STAYS_UP)
    (before,) = network.members(group)
    # A second, orderly end: SIGTERM counts as success, as systemd has it.
    os.kill(host.pid, signal.SIGTERM)
    eventually(lambda: before not in network.members(group))
    (ended,) = network.instances([before])
    assert ended["State"]["Name"] == "terminated"
    assert ended["StateReason"]["Code"] == "Client.InstanceInitiatedShutdown"
    assert "power off: the host program ended with SIGTERM" in host.log_path.read_text()


@pytest.mark.parametrize(
    ("program", "reason", "starts"),
    [
        (HOST_THAT_EXITS_1, "failed 3 times, the last time with code 1", 3),
        (HOST_THAT_LEAVES, "the host program ended with code 0", 1),
        (HOST_THAT_POWERS_OFF, "the host program asked for it", 1),
    ],
)
def test_how_the_program_ends_decides_about_the_instance(network, program, reason, starts):
    key, sha256 = network.wheel(program)
    group = network.group(
        f"ending-{starts}-{len(reason)}", network.template(network.user_data(key, sha256))
    )
    (first,) = network.scaled(group, 1)
    log = network.sim.state_dir / "hosts" / first / "host.log"
    eventually(lambda: log.exists() and "power off: " in log.read_text())
    # Logged first, then done; and before the group is told to end it.
    eventually(lambda: network.instances([first])[0]["State"]["Name"] == "terminated")
    network.want(group, 0)
    text = log.read_text()
    assert f"power off: the host program {reason}" in text or f"power off: {reason}" in text
    assert text.count("started process") == starts


def test_a_host_whose_wheel_is_another_one_reports_that_and_ends(network):
    key, _ = network.wheel(HOST_THAT_STAYS_UP)
    group = network.group("wrong-wheel", network.template(network.user_data(key, "0" * 64)))
    (first,) = network.scaled(group, 1)
    eventually(lambda: network.instances([first])[0]["State"]["Name"] == "terminated")
    network.want(group, 0)
    answer = network.client("s3").get_object(
        Bucket=network.bucket, Key=f"clusters/wrong-wheel/hosts/{first}.json"
    )
    report = json.loads(answer["Body"].read())
    assert report["state"] == "failed"
    assert "another checksum" in report["reason"]


def test_a_machine_that_vanishes_is_replaced(network, booted):
    group, (host,) = booted(HOST_THAT_STAYS_UP)
    network.sim.kill_host(host.instance_id)
    assert processes_of(host) == []
    (ended,) = network.instances([host.instance_id])
    assert ended["State"]["Name"] == "terminated"
    assert ended["StateReason"]["Code"] == "Server.InternalError"
    eventually(lambda: [one for one in network.members(group) if one != host.instance_id])
    with pytest.raises(SimulatorError, match="no such machine"):
        network.sim.kill_host("i-absent")


def test_metadata_wants_a_session_and_serves_tags_role_and_user_data(network, booted):
    group, (host,) = booted(HOST_THAT_STAYS_UP)
    imds = Imds(metadata_of(host))
    assert imds.ask("/latest/meta-data/instance-id")[0] == 401
    assert imds.ask("/latest/meta-data/instance-id", X_aws_ec2_metadata_token="made-up")[0] == 401
    assert imds.ask("/latest/api/token", "PUT")[0] == 400
    assert (
        imds.ask("/latest/api/token", "PUT", X_aws_ec2_metadata_token_ttl_seconds="21601")[0] == 400
    )
    forwarded = {"X_aws_ec2_metadata_token_ttl_seconds": "60", "X_Forwarded_For": "10.0.0.1"}
    assert imds.ask("/latest/api/token", "PUT", **forwarded)[0] == 403
    assert imds.get("meta-data/instance-id") == (200, host.instance_id)
    assert imds.get("meta-data/instance-type") == (200, "m7i.xlarge")
    assert imds.get("meta-data/local-ipv4") == (200, host.private_address)
    assert imds.get("meta-data/public-ipv4") == (200, host.public_address)
    assert imds.get("meta-data/placement/availability-zone") == (200, "us-east-1a")
    assert imds.get("meta-data/placement/region") == (200, "us-east-1")
    assert imds.get("meta-data/tags/instance/terradask:cluster") == (200, group)
    assert "terradask:role" in imds.get("meta-data/tags/instance/")[1].split("\n")
    assert imds.get("meta-data/spot/instance-action")[0] == 404
    assert imds.get("meta-data/autoscaling/target-lifecycle-state") == (200, "InService")
    assert imds.get("meta-data/iam/security-credentials/") == (200, network.role)
    credentials = json.loads(imds.get(f"meta-data/iam/security-credentials/{network.role}")[1])
    assert credentials["Code"] == "Success"
    assert json.loads(imds.get("meta-data/iam/info")[1])["InstanceProfileArn"].endswith(
        network.role
    )
    assert imds.get("user-data")[1].startswith("#cloud-config")
    assert (
        json.loads(imds.get("dynamic/instance-identity/document")[1])["instanceId"]
        == host.instance_id
    )
    assert imds.get("meta-data/nothing")[0] == 404
    network.ec2.create_tags(
        Resources=[host.instance_id], Tags=[{"Key": "terradask:run:id", "Value": "r1"}]
    )
    assert imds.get("meta-data/tags/instance/terradask:run:id") == (200, "r1")


def test_metadata_hides_tags_unless_the_template_shows_them(network, booted):
    _, (host,) = booted(HOST_THAT_STAYS_UP, MetadataOptions={"HttpTokens": "optional"})
    imds = Imds(metadata_of(host))
    assert imds.ask("/latest/meta-data/instance-id") == (200, host.instance_id)
    assert imds.get("meta-data/tags/instance/terradask:cluster")[0] == 404


def test_public_addresses_admit_whom_the_security_group_admits(network, booted):
    _, (host,) = booted(HOST_THAT_ANSWERS)
    eventually(lambda: say_up(host))

    def ask(address: str, source: str = "127.0.0.1", port: int = 8786) -> bytes:
        with socket.create_connection(
            (address, port), timeout=HANG_SECONDS, source_address=(source, 0)
        ) as connection:
            return connection.recv(100)

    expected = b"hello from " + host.private_address.encode()
    assert ask(host.private_address) == expected
    with pytest.raises(OSError, match="refused"):
        ask(host.public_address)
    permission = {
        "IpProtocol": "tcp",
        "FromPort": 8786,
        "ToPort": 8787,
        "IpRanges": [{"CidrIp": "127.0.0.9/32", "Description": "one peer"}],
    }
    network.ec2.authorize_security_group_ingress(
        GroupId=network.security_group, IpPermissions=[permission]
    )

    def admitted() -> bool:
        try:
            return ask(host.public_address, "127.0.0.9") == expected
        except ConnectionRefusedError:
            return False

    eventually(admitted)
    assert "no forward" not in (network.sim.state_dir / "daemon.log").read_text()
    assert ask(host.public_address, "127.0.0.1") == b""
    network.ec2.revoke_security_group_ingress(
        GroupId=network.security_group, IpPermissions=[permission]
    )

    def closed() -> bool:
        try:
            return ask(host.public_address, "127.0.0.9") == b""
        except ConnectionRefusedError:
            return True

    eventually(closed)


@pytest.mark.slow
def test_boto3_s3fs_and_pandas_find_the_roles_credentials(network, booted):
    import io

    import pandas

    content = io.BytesIO()
    pandas.DataFrame({"x": range(100)}).to_parquet(content)
    s3 = network.client("s3")
    s3.put_object(Bucket=network.bucket, Key="data/part-0.parquet", Body=content.getvalue())
    network.sim.reset_calls()
    _, (host,) = booted(HOST_THAT_READS_PARQUET)
    eventually(lambda: say_up(host))
    total, rows, caller = json.loads(
        s3.get_object(Bucket=network.bucket, Key="answer.json")["Body"].read()
    )
    assert (total, rows) == (4950, 100)
    assert caller.endswith(f":assumed-role/{network.role}/{host.instance_id}")
    reads = network.sim.calls(by="resource")[network.role][f"{network.bucket}/data/part-0.parquet"]
    assert reads["s3:GetObject"] >= 2
    assert "sts:GetCallerIdentity" in network.sim.calls(by="role")[network.role]
    assert "s3:GetObject" not in network.sim.calls(by="role")[""] or not any(
        "part-0" in key and "s3:GetObject" in calls
        for key, calls in network.sim.calls(by="resource").get("", {}).items()
    )


def test_the_reports_of_a_missing_path_are_json(network):
    with pytest.raises(SimulatorError) as caught:
        request_control(network.sim.info, "GET", "nothing")
    assert json.loads(str(caught.value.given)) == {"error": "no such path: nothing"}


def test_hosts_logs_stay_in_the_state_folder(network, booted):
    _, (host,) = booted(HOST_THAT_STAYS_UP)
    assert Path(host.log_path).is_relative_to(network.sim.state_dir)
