"""The example of a company's data: its tasks read a database, an encrypted bucket, a table and a
secret with the lines of its settings, and without them each refusal names its line.
"""

from __future__ import annotations

import contextlib
import json
import re
import runpy
import tomllib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from distributed import Client

from terradask import Cluster
from terradask_simulator import Simulator

from ..command import in_this_process
from ..postgresql import NEEDS_POSTGRESQL, postgresql
from ..quick_provider import QuickProvider
from ..waiting import HANG_SECONDS, eventually
from .acting import ACCOUNT, Account
from .host_parts import make_interface
from .tasks import connect_to_orders, count_orders, read_managers, read_prices

pytestmark = [pytest.mark.simulator, pytest.mark.life, NEEDS_POSTGRESQL]

EXAMPLE = Path(__file__).parents[2] / "examples/company-data"
BUCKET, MOUNTED, TABLE = "company-lake", "company-targets", "prices"
NAME = "orders.db.internal"
PASSWORD = "a-password-that-hosts-read"
#: Seconds of one step, where nothing answers; what answers may take some on a busy machine.
STEP_SECONDS = 10

ROWS = (
    f"create user reader password '{PASSWORD}'",
    "create database orders owner reader",
)
ORDERS = """
create table orders as
  select id, case when id % 4 = 0 then 'nails' else 'screws' end as product,
    case when id <= 600 then 'north' else 'south' end as region
  from generate_series(1, 1000) as id
"""


@dataclass
class Company:
    """What a company has beside terradask."""

    account: Account
    group: str
    secret: str
    key: str

    @property
    def targets(self) -> list[str]:
        return [
            f"{NAME}:5432",
            f"s3://{BUCKET}/2026/managers.csv",
            f"s3://{MOUNTED}/targets.csv",
            f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/{TABLE}",
            self.secret,
        ]


@pytest.fixture(scope="module")
def company(sim: Simulator) -> Iterator[Company]:
    """A database with rows, an encrypted bucket, a table and a secret."""
    with contextlib.ExitStack() as stack:
        account = Account(sim, {}, stack)
        ec2, s3, kms = (account.client(each) for each in ("ec2", "s3", "kms"))
        group, address = make_interface(sim, ec2, _shared(account), stack, NAME)
        key = kms.create_key()["KeyMetadata"]["Arn"]
        encrypted = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
        for bucket, file, text, how in (
            (BUCKET, "2026/managers.csv", b"region,manager\nnorth,Ada\nsouth,Grace\n", encrypted),
            (MOUNTED, "targets.csv", b"region,target\nnorth,900\nsouth,700\n", {}),
        ):
            s3.create_bucket(Bucket=bucket)
            stack.callback(s3.delete_bucket, Bucket=bucket)
            s3.put_object(Bucket=bucket, Key=file, Body=text, **how)
            stack.callback(s3.delete_object, Bucket=bucket, Key=file)
        dynamodb = account.client("dynamodb")
        dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "product", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "product", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        stack.callback(dynamodb.delete_table, TableName=TABLE)
        for product, price in (("nails", "0.5"), ("screws", "2")):
            dynamodb.put_item(
                TableName=TABLE, Item={"product": {"S": product}, "price": {"N": price}}
            )
        secrets = account.client("secretsmanager")
        secret = secrets.create_secret(
            Name="orders", SecretString=json.dumps({"password": PASSWORD})
        )["ARN"]
        stack.callback(secrets.delete_secret, SecretId=secret, ForceDeleteWithoutRecovery=True)
        server = stack.enter_context(postgresql(address, PASSWORD))
        for statement in ROWS:
            server.run(statement)
        with contextlib.closing(_connect(address)) as orders:
            orders.run(ORDERS)
        yield Company(account, group, secret, key)


def _connect(address: str) -> Any:
    import pg8000.native

    return pg8000.native.Connection("reader", host=address, database="orders", password=PASSWORD)


def _shared(account: Account) -> dict[str, Any]:
    """Return the document of the network that all tests share."""
    found = account.client("s3").get_object(
        Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json"
    )
    return dict(json.load(found["Body"]))


def settings(company: Company) -> str:
    """Return the example's settings with the company's own ids."""
    shared = _shared(company.account)
    zone = shared["zones"]["us-east-1a"]
    text = (EXAMPLE / "terradask.toml").read_text()
    own = {
        "vpc-0123456789abcdef0": shared["vpc_id"],
        "subnet-0123456789abcdef0": zone["public_subnet_id"],
        "subnet-0123456789abcdef1": zone["private_subnet_id"],
        "01234567-89ab-cdef-0123-456789abcdef": company.key.rpartition("/")[2],
        "orders-AbCdEf": company.secret.rpartition(":")[2],
    }
    for placeholder, value in own.items():
        assert placeholder in text
        text = text.replace(placeholder, value)
    return text


def without_the_lines(text: str) -> str:
    """Return settings without a way or a right to the company's data."""
    tables = re.split(r"\n(?=# |\[)", text)
    ours = ("network.egress", "network.data_buckets", "network.task_rights", "network.mounts")
    return "\n".join(one for one in tables if not one.startswith(tuple(f"[[{it}" for it in ours)))


@pytest.fixture
def workspace(
    sim: Simulator,
    company: Company,
    quick_provider: QuickProvider,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[[str], None]]:
    """Apply the network of settings, in this folder; it is removed afterwards."""
    quick_provider.lock(tmp_path)
    environ = {**sim.environ, "TERRADASK_STATE_DIR": str(tmp_path / ".terradask")}

    def run(*arguments: str) -> None:
        done = in_this_process(*arguments, environ=environ, folder=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr

    def apply(text: str) -> None:
        (tmp_path / "terradask.toml").write_text(text)
        run("apply", "network", "--yes")

    monkeypatch.chdir(tmp_path)
    with sim.applied():
        monkeypatch.setenv("TERRADASK_STATE_DIR", environ["TERRADASK_STATE_DIR"])
        try:
            apply(settings(company))
            yield apply
        finally:
            for each in ("orders", "network"):
                run("destroy", each, "--yes")


def _rule(company: Company) -> tuple[Any, dict[str, Any]]:
    """Return a client, and the rule by which the database lets workers in."""
    ec2 = company.account.client("ec2")
    (workers,) = ec2.describe_security_groups(
        Filters=[{"Name": "group-name", "Values": ["terradask-orders-worker"]}]
    )["SecurityGroups"]
    pairs = [{"GroupId": workers["GroupId"]}]
    rule = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432, "UserIdGroupPairs": pairs}
    return ec2, {"GroupId": company.group, "IpPermissions": [rule]}


@contextlib.contextmanager
def let_in(company: Company) -> Iterator[None]:
    """Let workers into the database, as the plan of the network shows. While a rule names the
    workers' group, that can't be deleted.
    """
    ec2, rule = _rule(company)
    ec2.authorize_security_group_ingress(**rule)
    try:
        yield
    finally:
        ec2.revoke_security_group_ingress(**rule)


@contextlib.contextmanager
def shut(company: Company) -> Iterator[None]:
    """Shut the database for workers."""
    ec2, rule = _rule(company)
    ec2.revoke_security_group_ingress(**rule)
    try:
        yield
    finally:
        ec2.authorize_security_group_ingress(**rule)


def example() -> None:
    runpy.run_path(str(EXAMPLE / "report.py"), run_name="__main__")


def test_tasks_reach_the_data_of_the_settings_alone(
    company: Company, workspace: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    text = settings(company)

    def tried(client: Client, function: Callable[[], object]) -> str:
        return str(client.submit(function, pure=False).result(timeout=HANG_SECONDS))

    with (
        let_in(company),
        Cluster("orders") as cluster,
        cluster.get_client() as client,
    ):
        example()
        assert "north (Ada): 975.0 of 900\nsouth (Grace): 650.0 of 700\n" in capsys.readouterr().out
        found = cluster.reach(company.targets)
        assert found.is_all_reached, str(found)
        assert tried(client, connect_to_orders) == "connected"
        assert tried(client, count_orders) == "1000"

        with shut(company):
            eventually(lambda: "TimeoutError" in tried(client, connect_to_orders))
            (database,) = cluster.reach(company.targets[:1], timeout=STEP_SECONDS)
        assert (database.state, database.refused_by) == ("refused", "their_rule"), database
        assert f"TCP 5432 from {found.security_groups[0]}" in database.theirs
        eventually(lambda: tried(client, connect_to_orders) == "connected")

        workspace(without_the_lines(text))
        eventually(lambda: "TimeoutError" in tried(client, connect_to_orders))
        whole = tomllib.loads(text)["network"]
        found = cluster.reach(company.targets, timeout=STEP_SECONDS)
        database, an_object, a_file, table, secret = found
        assert database.refused_by == "own_rule", database
        (rule,) = tomllib.loads(database.toml)["network"]["egress"]
        assert rule["ports"] == [5432]
        for one, task, number in ((table, read_prices, 0), (secret, None, 1)):
            assert one.refused_by == "role", one
            (added,) = tomllib.loads(one.toml)["network"]["task_rights"]
            assert added["resources"] == whole["task_rights"][number]["resources"]
            if task is not None:
                assert "is not authorized to perform" in tried(client, task)
        for one, bucket in ((an_object, BUCKET), (a_file, MOUNTED)):
            assert one.refused_by == "role", one
            (added,) = tomllib.loads(one.toml)["network"]["data_buckets"]
            assert (added["name"], added["access"]) == (bucket, "read")
        assert "is not authorized to perform" in tried(client, read_managers)
