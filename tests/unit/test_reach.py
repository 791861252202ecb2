"""What a client makes of what a host found: reached or refused, by whom, and the line to write."""

from __future__ import annotations

import asyncio
import json
import tomllib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._clusters.reach.advice import Side
from terradask._clusters.reach.explanation import explain, side_of
from terradask._clusters.reach.outbound import read_rules
from terradask._clusters.reach.result import Found, Reach, Reached, judge
from terradask._clusters.reach.targets import read_target
from terradask._dask import reach as client
from terradask._dask.reach import ReachTests
from terradask._network.baseline import Baseline
from terradask.cli import run
from terradask.errors import AccessDenied, InvalidInput, WorkersMissing
from terradask_host.commands import TryTargets

from .baselines import ACCOUNT, baseline

ROLE = f"arn:aws:iam::{ACCOUNT}:role/terradask-default-worker"
CALLER = f"arn:aws:sts::{ACCOUNT}:assumed-role/terradask-default-worker/i-0abc"
TABLE = f"arn:aws:dynamodb:us-east-1:{ACCOUNT}:table/prices"
SECRET = f"arn:aws:secretsmanager:us-east-1:{ACCOUNT}:secret:db-AbCdEf"
KEY = f"arn:aws:kms:us-east-1:{ACCOUNT}:key/d24c4a28-7014-4d49-a6c2-c4f86a68945d"


def found_for(target: str, found: Any, *, caller: str = CALLER, **network: Any) -> Reached:
    deployed = baseline(**network)
    side = side_of("etl", caller, ["sg-0123"], deployed)
    read = read_target(target, account=ACCOUNT, partition="aws")
    return judge(read, Found.read(found), side, deployed)


def connection(kind: str, address: str = "10.64.7.7", port: int = 5432) -> dict[str, Any]:
    return {
        "addresses": [address],
        "port": port,
        "calls": [],
        "problem": {"kind": kind, "text": "x", "address": address, "port": port},
    }


def rule(destination: str, ports: tuple[int, int] = (5432, 5432), **more: Any) -> dict[str, Any]:
    return {"destination": destination, "ports": ports, "reason": "orders", **more}


def denied(call: str, why: str, action: str | None = None, resource: str = "") -> dict[str, Any]:
    on = f" on resource: {resource}" if resource else ""
    text = f"User: {CALLER} is not authorized to perform: {action or call}{on} {why}"
    return {"calls": [{"call": call, "code": "AccessDeniedException", "message": text}]}


def lines(one: Reached) -> dict[str, Any]:
    return tomllib.loads(one.toml)


# ---- connections ---------------------------------------------------------------------------------


def test_a_connection_is_reached_with_address_and_time() -> None:
    found = {"addresses": ["10.1.2.3"], "address": "10.1.2.3", "connected_seconds": 0.0031}
    one = found_for("db.internal:5432", found)
    assert (one.state, one.refused_by, one.text) == ("reached", None, "10.1.2.3")
    assert (one.addresses, one.time_text) == (("10.1.2.3",), "3 ms")
    assert one.toml == one.theirs == one.to_do == ""


@pytest.mark.parametrize(
    ("address", "port", "network", "by"),
    [
        # The network's own block is open, so somebody else doesn't answer.
        ("10.64.7.7", 5432, {}, "their_rule"),
        ("10.1.2.3", 5432, {}, "own_rule"),
        ("10.1.2.3", 443, {}, "their_rule"),
        # Endpoints of a network without a way out are inside of it.
        ("198.51.100.7", 443, {"nat": "none"}, "some_rule"),
        ("10.64.7.7", 5432, {"given": ["vpc"]}, "own_rule"),
        ("10.64.7.7", 5432, {"isolation": "cluster"}, "own_rule"),
        ("2001:db8::7", 5432, {}, "own_rule"),
        ("10.1.2.3", 5432, {"egress": [rule("10.1.0.0/16")]}, "their_rule"),
        ("10.1.2.3", 5432, {"egress": [rule("10.1.0.0/16", (1433, 1433))]}, "own_rule"),
        ("10.1.2.3", 5432, {"egress": [rule("10.1.0.0/16", protocol="udp")]}, "own_rule"),
        ("10.1.2.3", 5432, {"egress": [rule("10.1.0.0/16", clusters=["ml"])]}, "own_rule"),
        ("10.1.2.3", 5432, {"egress": [rule("10.1.0.0/16", clusters=["etl"])]}, "their_rule"),
        ("10.64.7.7", 5432, {"given": ["vpc"], "egress": [rule("vpc")]}, "their_rule"),
        # Members of a group aren't known here.
        ("10.1.2.3", 5432, {"egress": [rule("sg-0aa")]}, "some_rule"),
    ],
)
def test_a_time_out_is_ours_where_no_rule_lets_hosts_out(
    address: str, port: int, network: dict[str, Any], by: str
) -> None:
    one = found_for("db:5432", connection("timeout", address, port), **network)
    assert one.refused_by == by
    assert f"{address}:{port}" in one.text
    if by == "their_rule":
        assert one.toml == ""
    else:
        (rule,) = lines(one)["network"]["egress"]
        block = f"{address}/{128 if ':' in address else 32}"
        assert (rule["destination"], rule["ports"]) == (block, [port])
        assert rule["reason"]
    if by == "their_rule":
        assert f"TCP {port} from sg-0123" in one.theirs


def test_the_rules_in_aws_come_first_where_the_caller_may_read_them() -> None:
    found = Found.read(connection("timeout", "10.1.2.3"))
    deployed = baseline(egress=[rule("10.1.0.0/16"), rule("sg-1", (1433, 1433))])
    side = side_of("etl", CALLER, ["sg-0123"], deployed)
    read = read_target("db:5432", account=ACCOUNT, partition="aws")

    def judged(*rules: dict[str, Any]) -> Reached:
        return judge(read, found, side, deployed, read_rules(rules))

    out = {"IsEgress": True, "IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432}
    assert judged({**out, "CidrIpv4": "10.1.0.0/16"}).refused_by == "their_rule"
    assert judged({**out, "IpProtocol": "-1", "CidrIpv4": "10.0.0.0/8"}).refused_by == "their_rule"
    assert judged({**out, "PrefixListId": "pl-1"}).refused_by == "some_rule"
    assert judged({**out, "ReferencedGroupInfo": {"GroupId": "sg-1"}}).refused_by == "some_rule"
    # It was removed by hand.
    for other in (
        {**out, "CidrIpv4": "10.1.0.0/16", "IsEgress": False},
        {**out, "CidrIpv4": "10.1.0.0/16", "IpProtocol": "udp"},
        {**out, "CidrIpv6": "::/0"},
        # The group of other hosts.
        {**out, "ReferencedGroupInfo": {"GroupId": "sg-0456"}},
    ):
        removed = judged(other)
        assert removed.refused_by == "own_rule"
        assert "terradask apply network" in removed.to_do
        assert removed.toml == ""


def test_given_groups_and_roles_are_their_owners_to_widen() -> None:
    given = ["vpc", "security_groups", "instance_profiles"]
    one = found_for("db:5432", connection("timeout", "10.1.2.3"), given=given)
    assert (one.refused_by, one.toml) == ("some_rule", "")
    assert "sg-0123: TCP 5432 to 10.1.2.3/32" in one.to_do
    table = found_for(TABLE, denied("dynamodb:GetItem", NO_IDENTITY), given=given)
    assert table.toml == ""
    assert ROLE in table.to_do


def test_lines_may_be_for_one_isolated_cluster() -> None:
    one = found_for("db:5432", connection("timeout", "10.1.2.3"), isolation="cluster")
    assert '# clusters = ["etl"]' in one.toml
    right = found_for(TABLE, denied("dynamodb:GetItem", NO_IDENTITY), isolation="cluster")
    assert '# clusters = ["etl"]' in right.toml
    assert "clusters" not in found_for("db:5432", connection("timeout", "10.1.2.3")).toml


def test_a_public_address_needs_a_way_to_the_internet() -> None:
    one = found_for("db:5432", connection("timeout", "8.8.8.8"), nat="none")
    assert "network.nat" in one.to_do
    assert one.theirs == ""


@pytest.mark.parametrize(
    ("kind", "by"),
    [
        ("refused", "closed_port"),
        ("no_route", "no_route"),
        ("no_name", "name"),
        ("no_name_server", "name_server"),
        ("tls", "tls"),
        ("proxy", "proxy"),
        ("failed", "unknown"),
        ("no_botocore", "unknown"),
    ],
)
def test_each_problem_has_its_refuser(kind: str, by: str) -> None:
    one = found_for("db:5432", connection(kind))
    assert (one.state, one.refused_by) == ("refused", by)
    assert one.text


def test_a_step_that_never_ends_is_no_firewall() -> None:
    found = {"problem": {"kind": "timeout", "text": "it didn't end in time", "doing": "resolve"}}
    one = found_for("db:5432", found)
    assert one.refused_by == "unknown"
    assert "resolve" in one.text


# ---- rights --------------------------------------------------------------------------------------

NO_IDENTITY = "because no identity-based policy allows the action"


def test_our_role_gets_the_statement_to_write() -> None:
    one = found_for(TABLE, denied("dynamodb:GetItem", NO_IDENTITY, resource=TABLE))
    assert one.refused_by == "role"
    assert lines(one)["network"]["task_rights"] == [
        {"reason": "why tasks need it", "actions": ["dynamodb:GetItem"], "resources": [TABLE]}
    ]
    secret = found_for(f"{SECRET}:password::", denied("secretsmanager:GetSecretValue", NO_IDENTITY))
    # Without the key of the reference: it is no part of the ARN.
    assert lines(secret)["network"]["task_rights"][0]["resources"] == [SECRET]


def test_a_bucket_gets_an_entry_that_reads() -> None:
    for target, entry in (
        ("s3://lake/2026/", {"name": "lake", "prefix": "2026", "access": "read"}),
        ("s3://lake/2026/a.parquet", {"name": "lake", "prefix": "2026", "access": "read"}),
        ("s3://lake", {"name": "lake", "access": "read"}),
    ):
        one = found_for(target, denied("s3:ListBucket", NO_IDENTITY))
        assert lines(one)["network"]["data_buckets"] == [entry]


def test_a_catalog_needs_its_database_and_the_catalog() -> None:
    target = f"arn:aws:glue:us-east-1:{ACCOUNT}:table/lake/prices"
    one = found_for(target, denied("glue:GetTable", NO_IDENTITY))
    (statement,) = lines(one)["network"]["task_rights"]
    assert statement["resources"] == [
        f"arn:aws:glue:us-east-1:{ACCOUNT}:{name}"
        for name in ("catalog", "database/lake", "table/lake/prices")
    ]
    assert "glue:GetTable" in statement["actions"]


def test_a_deny_in_a_policy_has_no_line_that_helps() -> None:
    policy = "arn:aws:iam::123456789012:policy/NoData"
    why = f"with an explicit deny in an identity-based policy: {policy}"
    one = found_for(TABLE, denied("dynamodb:GetItem", why))
    assert one.toml == ""
    assert policy in one.to_do


def test_lent_credentials_arent_the_networks_to_widen() -> None:
    caller = f"arn:aws:sts::{ACCOUNT}:assumed-role/Analysts/jane"
    one = found_for(TABLE, denied("dynamodb:GetItem", NO_IDENTITY), caller=caller)
    assert one.toml == ""
    assert caller in one.to_do


def test_their_policy_gets_the_statement_for_its_owner() -> None:
    why = "because no resource-based policy allows the action"
    one = found_for("s3://theirs/x", denied("s3:GetObject", why))
    assert one.refused_by == "their_policy"
    statement = json.loads(one.theirs.partition(": ")[2])
    assert statement["Principal"] == {"AWS": ROLE}
    assert statement["Resource"] == ["arn:aws:s3:::theirs", "arn:aws:s3:::theirs/*"]
    assert one.toml == ""


def test_access_denied_alone_may_be_either() -> None:
    found = {
        "calls": [{"call": "s3:GetObject", "code": "AccessDenied", "message": "Access Denied"}]
    }
    one = found_for("s3://theirs/x", found)
    assert one.refused_by == "role_or_policy"
    assert "data_buckets" in one.toml
    assert ROLE in one.theirs


@pytest.mark.parametrize(
    ("why", "ours", "theirs"),
    [
        (NO_IDENTITY, True, False),
        ("because no resource-based policy allows the action", False, True),
    ],
)
def test_a_keys_refusal_tells_whose_policy(why: str, ours: bool, theirs: bool) -> None:
    found = denied("s3:GetObject", why, "kms:Decrypt", KEY)
    one = found_for("s3://lake/2026/a", found)
    assert one.refused_by == "key"
    assert bool(one.toml) is ours
    assert bool(one.theirs) is theirs
    if ours:
        assert lines(one)["network"]["data_buckets"][0]["kms_key_arn"] == KEY
    else:
        assert KEY in one.theirs
        assert '"kms:Decrypt"' in one.theirs


def test_a_secrets_key_gets_a_statement_of_its_own() -> None:
    message = "Access to KMS is not allowed"
    code = "AccessDeniedException"
    call = {"call": "secretsmanager:GetSecretValue", "code": code, "message": message}
    one = found_for(SECRET, {"calls": [call]})
    assert one.refused_by == "key"
    (statement,) = lines(one)["network"]["task_rights"]
    assert statement["actions"] == ["kms:Decrypt"]
    assert one.theirs


@pytest.mark.parametrize(
    ("why", "by", "where"),
    [
        ("because no permissions boundary allows the action", "boundary", "to_do"),
        ("because no VPC endpoint policy allows the action", "endpoint", "theirs"),
        ("with an explicit deny in a service control policy", "organization", "to_do"),
        ("because no session policy allows the action", "session", "to_do"),
    ],
)
def test_other_refusers_say_who_decides(why: str, by: str, where: str) -> None:
    one = found_for(TABLE, denied("dynamodb:GetItem", why))
    assert one.refused_by == by
    assert "dynamodb:GetItem" in getattr(one, where)


def test_a_role_to_assume_needs_both_sides() -> None:
    target = "arn:aws:iam::999988887777:role/reader"
    call = {
        "call": "sts:AssumeRole",
        "code": "AccessDenied",
        "message": f"User: {CALLER} is not authorized to perform: sts:AssumeRole on resource: "
        + target,
    }
    one = found_for(target, {"calls": [call]})
    assert one.refused_by == "role_or_policy"
    assert lines(one)["network"]["task_rights"][0]["actions"] == ["sts:AssumeRole"]
    assert "trust policy" in one.theirs


def test_lake_formation_grants_by_a_command() -> None:
    target = f"arn:aws:glue:us-east-1:{ACCOUNT}:table/lake/prices"
    text = "Insufficient Lake Formation permission(s): Required Describe on prices"
    code = "AccessDeniedException"
    one = found_for(target, {"calls": [{"call": "glue:GetTable", "code": code, "message": text}]})
    assert one.refused_by == "lake_formation"
    assert ROLE in one.theirs
    assert '"DatabaseName": "lake"' in one.theirs


def test_one_way_to_read_a_table_is_enough_and_the_other_is_told() -> None:
    scan = denied("dynamodb:Scan", NO_IDENTITY)["calls"]
    item = {"call": "dynamodb:GetItem", "code": "ValidationException", "message": "the key"}
    one = found_for(TABLE, {"calls": [item, *scan]})
    assert one.state == "reached"
    assert one.text == "allowed: dynamodb:GetItem; not allowed: dynamodb:Scan"
    # Of a prefix, listing without reading isn't.
    listed = {"call": "s3:ListBucket", "code": None}
    get = denied("s3:GetObject", NO_IDENTITY)["calls"]
    assert found_for("s3://lake/x/", {"calls": [listed, *get]}).state == "refused"


def test_a_missing_thing_is_missing() -> None:
    call = {"call": "s3:GetObject", "code": "NoSuchKey", "message": "does not exist"}
    one = found_for("s3://lake/x", {"calls": [call]})
    assert (one.refused_by, one.toml) == ("missing", "")


# ---- the result ----------------------------------------------------------------------------------


def test_a_hosts_answer_is_read_as_text_and_numbers_alone() -> None:
    # Any task of the worker's could have written it.
    for answer in (
        None,
        [],
        {"problem": {"kind": "timeout", "address": "fe80::1%x"}, "addresses": ["nonsense"]},
        {"addresses": 7, "calls": "x", "problem": [1], "port": "x", "connected_seconds": "y"},
        {"calls": [3, None]},
    ):
        assert Found.read(answer).connected_seconds is None
        for target in ("db:5432", TABLE):
            assert found_for(target, answer).refused_by in ("unknown", "role_or_policy")
    found = {"problem": {"kind": "failed", "text": "\x1b[2Jgone" + "x" * 9000}}
    text = found_for("db:5432", found).text
    assert "\x1b" not in text
    assert len(text) < 2000


def result() -> Reach:
    targets = [
        read_target(one, account=ACCOUNT, partition="aws")
        for one in ("db:5432", "arn:aws:lambda:us-east-1:1:function:f", "db2:5432")
    ]
    found = {
        "caller": CALLER,
        "security_groups": ["sg-0123"],
        "results": [
            {"addresses": ["10.1.2.3"], "address": "10.1.2.3", "connected_seconds": 0.0031},
            connection("timeout", "10.1.2.4"),
        ],
    }
    return explain("etl", "i-0abc", targets, found, baseline())


def test_the_table_has_each_target_and_the_lines_below() -> None:
    found = result()
    table = str(found)
    assert [one.state for one in found] == ["reached", "not tried", "refused"]
    assert not found.is_all_reached
    first, *rows = table.splitlines()
    assert first.split() == ["TARGET", "STATE", "TIME", "FOUND"]
    assert rows[0].split() == ["db:5432", "reached", "3", "ms", "10.1.2.3"]
    assert "    [[network.egress]]" in rows
    json.dumps(found.as_dict())
    assert found.as_dict()["targets"][2]["refused_by"] == "own_rule"


def test_the_command_prints_it_and_fails_unless_all_is_reached(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    asked: list[Any] = []
    waited: list[int] = []

    class Attached:
        """A cluster whose hosts reach one of three, once its only worker has joined."""

        requested = frozenset({"i-0abc"})

        @property
        def observed(self) -> set[str]:
            return {"i-0abc"} if waited else set()

        def wait_for_workers(self, n_workers: int, *, timeout: float) -> None:
            assert timeout == 600
            waited.append(n_workers)

        def __enter__(self) -> Attached:
            return self

        def __exit__(self, *_: object) -> None:
            """Leave it."""

        def reach(self, targets: Any, **options: Any) -> Reach:
            asked.append((targets, options))
            return result()

    monkeypatch.setattr("terradask.Cluster", SimpleNamespace(from_name=lambda *_, **__: Attached()))
    assert run(["reach", "etl", "db:5432", "--group", "gpu", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["is_all_reached"] is False
    assert waited == [1]
    assert asked == [(("db:5432",), {"group": "gpu", "scheduler": False, "timeout": "10s"})]
    assert run(["reach", "etl", "db:5432"]) == 1
    assert waited == [1]
    text = capsys.readouterr()
    assert text.out.startswith("TARGET")
    assert f"etl: tried from i-0abc as {CALLER}" in text.err


# ---- who tries -----------------------------------------------------------------------------------


def asking(
    names: list[str],
    sent: list[TryTargets],
    network: Callable[[], Baseline] = baseline,
    **groups: set[str],
) -> ReachTests:
    async def send(sent_command: TryTargets) -> dict[str, Any]:
        sent.append(sent_command)
        return {"results": [{"calls": []}] * len(sent_command.targets)}

    async def call(work: Any) -> Any:
        return work()

    connection: Any = SimpleNamespace(
        send=send,
        health=SimpleNamespace(name="etl"),
        joined=SimpleNamespace(all_names=names),
        attachment=SimpleNamespace(scheduler=SimpleNamespace(instance_id="i-5c")),
    )
    pool: Any = SimpleNamespace(
        groups={name: SimpleNamespace(observed=hosts) for name, hosts in groups.items()}
    )
    return ReachTests(network, connection, pool, call, lambda _event: None)


def test_a_worker_of_the_group_tries_or_the_scheduler() -> None:
    sent: list[TryTargets] = []
    names = ["scheduler-i-5c", "i-0b-1", "i-0a", "i-0b"]
    tests = asking(names, sent, workers={"i-0a"}, gpu={"i-0b"})

    async def ask() -> None:
        assert (await tests.reach("db:5432")).host == "i-0a"
        assert (await tests.reach(["db:5432"], group="gpu")).host == "i-0b"
        assert (await tests.reach(["db:5432"], scheduler=True, timeout=3)).host == "i-5c"
        # Nothing to try asks nobody.
        await tests.reach(["arn:aws:lambda:us-east-1:1:function:f"])

    asyncio.run(ask())
    assert [one.worker for one in sent] == ["i-0a", "i-0b", None]
    assert [one.seconds for one in sent] == [10.0, 10.0, 3.0]
    assert TryTargets.read(sent[0].to_document()) == sent[0]


def test_a_network_applied_meanwhile_is_what_time_outs_are_judged_by() -> None:
    networks = [baseline(egress=[rule("10.1.0.0/16")]), baseline()]
    tests = asking(["i-0a"], [], workers={"i-0a"}, network=lambda: networks.pop(0))
    tests.pool.deployment = SimpleNamespace(aws=None)  # type: ignore[assignment]

    async def send(_command: TryTargets) -> dict[str, Any]:
        return {"results": [connection("timeout", "10.1.7.7")]}

    tests.connection.send = send  # type: ignore[method-assign]
    refusers = [asyncio.run(tests.reach("db:5432")).results[0].refused_by for _ in range(2)]
    assert refusers == ["their_rule", "own_rule"]


def test_only_the_worker_on_the_schedulers_host_may_be_left() -> None:
    sent: list[TryTargets] = []
    asyncio.run(asking(["scheduler-i-5c"], sent, workers=set()).reach("db:5432"))
    assert sent[0].worker == "scheduler-i-5c"
    for names, group in (([], None), (["scheduler-i-5c"], "workers")):
        tests = asking(names, sent, workers=set())
        with pytest.raises(WorkersMissing, match="no joined worker"):
            asyncio.run(tests.reach("db:5432", group=group))


@pytest.mark.parametrize("may_read", [True, False])
def test_a_time_out_has_aws_asked_for_the_hosts_rules(may_read: bool) -> None:
    asked: list[Any] = []
    answer = {"results": [connection("timeout", "10.64.7.7")], "security_groups": ["sg-0a", "x"]}

    def describe(**question: Any) -> dict[str, Any]:
        asked.append(question)
        if not may_read:
            raise AccessDenied("ec2:DescribeSecurityGroupRules", "no")
        return {"SecurityGroupRules": []}

    ec2 = SimpleNamespace(can_paginate=lambda _: False, describe_security_group_rules=describe)
    tests = asking(["i-0a"], [], workers={"i-0a"})
    tests.pool.deployment = SimpleNamespace(aws=SimpleNamespace(client=lambda _: ec2))  # type: ignore[assignment]

    async def send(_command: TryTargets) -> dict[str, Any]:
        return answer

    tests.connection.send = send  # type: ignore[method-assign]
    (one,) = asyncio.run(tests.reach("db:5432")).results
    assert one.refused_by == ("own_rule" if may_read else "their_rule")
    # A worker's answer names no other filter.
    assert asked == [{"Filters": [{"Name": "group-id", "Values": ["sg-0a"]}]}]


@pytest.mark.parametrize(
    ("targets", "options"),
    [
        ([], {}),
        (["db:1"] * (client.MOST_TARGETS + 1), {}),
        (["db:1"], {"timeout": "2 hours"}),
        (["db:1"], {"timeout": 0}),
        (["db:1"], {"group": "gpu"}),
        (["db:1"], {"group": "workers", "scheduler": True}),
        (["db"], {}),
    ],
)
def test_bad_input_is_refused_before_anything_is_asked(
    targets: list[str], options: dict[str, Any]
) -> None:
    sent: list[TryTargets] = []
    with pytest.raises(InvalidInput):
        asyncio.run(asking(["i-0a"], sent, workers={"i-0a"}).reach(targets, **options))
    assert sent == []


def test_the_role_is_the_networks_with_its_path() -> None:
    path = f"arn:aws:iam::{ACCOUNT}:role/platform/terradask-default-worker"
    deployed = baseline(roles={"scheduler": path.replace("worker", "scheduler"), "worker": path})
    side: Side = side_of("etl", CALLER, [], deployed)
    assert (side.role, side.is_own_role) == (path, True)
    # Where AWS wasn't reached, the line is for the workers' role.
    assert side_of("etl", None, [], deployed).role == path
    assert not side_of("etl", f"arn:aws:iam::{ACCOUNT}:user/jane", [], deployed).is_own_role
