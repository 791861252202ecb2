"""``terradask reach`` proves what tasks reach: whoever writes the lines that it prints, and has the
other side write theirs, opens all of it. A task's own error names the same refuser.
"""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator import Simulator

from ..command import in_this_process
from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS
from .acting import ACCOUNT, Account
from .host_parts import make_interface

pytestmark = [pytest.mark.simulator, pytest.mark.life]

SETTINGS = """
[workspace]
name = "proven"
[network]
vpc_id = "{vpc_id}"
[network.subnets."us-east-1a"]
scheduler = "{public_subnet_id}"
worker = "{private_subnet_id}"
[[network.ingress]]
cidr = "127.0.0.0/8"
[cluster]
n_workers = 1
max_workers = 2
[clusters.one]
"""

DATABASE = "orders.proven.internal"
TABLE = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/prices"

#: Each target as a task uses it; prints what it raised.
TASKS = """
import json, sys
from terradask import Cluster

def connect():
    import socket
    socket.create_connection(("orders.proven.internal", 5432), timeout=1).close()

def read_object():
    import boto3
    boto3.client("s3").get_object(Bucket="lake-proven", Key="2026/a")["Body"].read()

def read_table():
    import boto3
    boto3.client("dynamodb").get_item(TableName="prices", Key={"id": {"S": "a"}})

def read_secret():
    import boto3
    boto3.client("secretsmanager").get_secret_value(SecretId=SECRET)

SECRET = sys.argv[1]
with Cluster.from_name("one", show_widget=False) as cluster, cluster.get_client() as client:
    raised = [client.submit(work, pure=False).exception() for work in
              (connect, read_object, read_table, read_secret)]
    print(json.dumps([f"{type(one).__name__}: {one}" if one else None for one in raised]))
"""


@contextlib.contextmanager
def database(address: str) -> Iterator[None]:
    """Listen as a database does."""

    def serve(server: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                server.accept()[0].close()

    with socket.create_server((address, 5432)) as server:
        thread = threading.Thread(target=serve, args=(server,), daemon=True)
        thread.start()
        yield
        server.shutdown(socket.SHUT_RDWR)
        thread.join(5.0)


class Proven:
    """The command, and tasks, of whoever uses the workspace."""

    def __init__(self, sim: Simulator, folder: Path, secret: str) -> None:
        self._folder, self._secret = folder, secret
        self._environ = {
            **sim.environ_of("proven", _everything()),
            "TERRADASK_STATE_DIR": str(folder / ".terradask"),
        }

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run the command."""
        done = in_this_process(*arguments, environ=self._environ, folder=self._folder)
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    def reach(self, *targets: str, code: int = 1) -> list[dict[str, Any]]:
        """Return what a worker's host reaches."""
        printed = self.run("reach", "one", *targets, "--json", "--timeout", "10s", code=code)
        answered: list[dict[str, Any]] = json.loads(printed)["targets"]
        return answered

    def raised_by_tasks(self) -> list[str | None]:
        """Return what each task raises."""
        done = subprocess.run(
            [sys.executable, "-c", TASKS, self._secret],
            cwd=self._folder,
            env=self._environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=PROCESS_SECONDS,
        )
        assert done.returncode == 0, done.stderr
        texts: list[str | None] = json.loads(done.stdout)
        return texts


def test_the_lines_that_reach_prints_open_what_it_names(
    sim: Simulator, quick_provider: QuickProvider, tmp_path: Path
) -> None:
    quick_provider.lock(tmp_path)
    with contextlib.ExitStack() as stack:
        owner = Account(sim, {}, stack)
        ec2, s3 = owner.client("ec2"), owner.client("s3")
        found = s3.get_object(Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json")
        shared = json.load(found["Body"])
        own = SETTINGS.format(**shared, **shared["zones"]["us-east-1a"])
        settings = tmp_path / "terradask.toml"
        settings.write_text(own)
        key, secret = _data(owner, stack)
        group, address = make_interface(sim, ec2, shared, stack, DATABASE)
        stack.enter_context(database(address))
        proven = Proven(sim, tmp_path, secret)
        run, reach = proven.run, proven.reach
        stack.callback(run, "destroy", "network", "--yes")
        run("apply", "network", "--yes")
        stack.callback(run, "destroy", "one", "--yes")
        run("apply", "one", "--yes")
        run("start", "one")
        targets = (f"{DATABASE}:5432", "s3://lake-proven/2026/", TABLE, secret)

        before = reach(*targets)
        assert [one["refused_by"] for one in before] == ["own_rule", "role", "role", "role"]
        connection, *refused = proven.raised_by_tasks()
        assert str(connection).startswith("TimeoutError")
        for text, action in zip(
            refused,
            ("s3:GetObject", "dynamodb:GetItem", "secretsmanager:GetSecretValue"),
            strict=True,
        ):
            assert f"because no identity-based policy allows the {action} action" in str(text)

        settings.write_text(_with(own, [one["toml"] for one in before]))
        run("apply", "network", "--yes")
        half = reach(*targets)
        assert [one["refused_by"] for one in half] == ["their_rule", "key", None, None]
        (ours,) = _groups(ec2, shared["vpc_id"], "terradask-proven-worker")
        assert f"TCP 5432 from {ours}" in half[0]["theirs"]
        assert half[1]["allowed"] == ["s3:ListBucket"]
        assert f'kms_key_arn = "{key}"' in half[1]["toml"]

        rule = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}
        inbound = {
            "GroupId": group,
            "IpPermissions": [{**rule, "UserIdGroupPairs": [{"GroupId": ours}]}],
        }
        ec2.authorize_security_group_ingress(**inbound)
        # AWS deletes no group that another one's rule names.
        stack.callback(ec2.revoke_security_group_ingress, **inbound)
        opening = [before[0], half[1], before[2], before[3]]
        settings.write_text(_with(own, [one["toml"] for one in opening]))
        run("apply", "network", "--yes")
        opened = reach(*targets, code=0)
        assert [one["state"] for one in opened] == ["reached"] * 4
        assert proven.raised_by_tasks() == [None] * 4


def _data(owner: Account, stack: contextlib.ExitStack) -> tuple[str, str]:
    """Make a bucket whose objects are encrypted, a table and a secret; return key and secret."""
    s3, dynamodb = owner.client("s3"), owner.client("dynamodb")
    secrets = owner.client("secretsmanager")
    key = owner.client("kms").create_key()["KeyMetadata"]["Arn"]
    s3.create_bucket(Bucket="lake-proven")
    s3.put_object(
        Bucket="lake-proven",
        Key="2026/a",
        Body=b"a",
        ServerSideEncryption="aws:kms",
        SSEKMSKeyId=key,
    )
    stack.callback(s3.delete_bucket, Bucket="lake-proven")
    stack.callback(s3.delete_object, Bucket="lake-proven", Key="2026/a")
    dynamodb.create_table(
        TableName="prices",
        KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    stack.callback(dynamodb.delete_table, TableName="prices")
    secret = secrets.create_secret(Name="orders-proven", SecretString="x")["ARN"]
    stack.callback(secrets.delete_secret, SecretId=secret, ForceDeleteWithoutRecovery=True)
    return key, secret


def _with(settings: str, lines: list[str]) -> str:
    """Add printed lines, those of ``[network]`` within the section that there is."""
    inside = [one.partition("\n")[2] for one in lines if one.startswith("[network]\n")]
    tables = [one for one in lines if not one.startswith("[network]\n")]
    section = "\n".join(["[network]", *inside])
    return "\n".join([settings.replace("[network]", section, 1), *tables, ""])


def _everything() -> dict[str, Any]:
    allow = {"Effect": "Allow", "Action": "*", "Resource": "*"}
    return {"Version": "2012-10-17", "Statement": [allow]}


def _groups(ec2: Any, vpc_id: str, name: str) -> list[str]:
    filters = [{"Name": "vpc-id", "Values": [vpc_id]}, {"Name": "group-name", "Values": [name]}]
    found = ec2.describe_security_groups(Filters=filters)["SecurityGroups"]
    return [one["GroupId"] for one in found]
