"""What security groups admit, by the table that hosts read."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.waiting import PROCESS_SECONDS

from terradask_simulator.aws.security_groups import on_hosts
from terradask_simulator.aws.security_groups.on_hosts.terradask_security_groups import (
    NETWORK,
    OWN_ADDRESS,
    Network,
    is_covered,
)

(FOLDER,) = on_hosts.__path__
OWN = "127.64.0.4"
OTHER_VPC, BESIDE, IPV6 = "127.64.32.9", "127.64.0.5", "2600:1f18::5"

TABLE: dict[str, Any] = {
    "endpoint": ["127.0.0.1", 5000],
    "black_hole": ["127.0.0.1", 6000],
    "interfaces": {
        OWN: ["vpc-1", ["sg-own"]],
        BESIDE: ["vpc-1", ["sg-beside"]],
        IPV6: ["vpc-1", ["sg-beside"]],
        OTHER_VPC: ["vpc-2", ["sg-all"]],
    },
    "public": ["127.128.1.0"],
    "blocks": ["127.64.0.0/19", "127.64.32.0/19"],
    "groups": {
        "sg-own": {"in": [], "out": [["-1", None, None, "0.0.0.0/0"], ["-1", None, None, "::/0"]]},
        "sg-beside": {"in": [["tcp", 5432, 5433, "sg-own"]], "out": []},
        "sg-all": {"in": [["-1", None, None, "0.0.0.0/0"]], "out": []},
    },
    "prefix_lists": {"pl-1": ["127.64.0.0/28"], "pl-s3": []},
    "peerings": [],
    "endpoints": [],
    "gateways": {},
    "names": {"vpc-1": {"orders.db.internal": BESIDE}, "vpc-2": {"others.internal": BESIDE}},
}


@pytest.fixture
def table() -> dict[str, Any]:
    return copy.deepcopy(TABLE)


def network(folder: Path, table: dict[str, Any]) -> Network:
    path = folder / "network.json"
    path.write_text(json.dumps(table))
    return Network(str(path), OWN)


@pytest.mark.parametrize(
    ("protocol", "port", "address", "groups", "covered"),
    [
        ("tcp", 80, "10.0.0.1", (), True),
        ("tcp", 89, "10.0.0.1", (), True),
        ("tcp", 90, "10.0.0.1", (), False),
        ("udp", 80, "10.0.0.1", (), False),
        ("tcp", 80, "10.1.0.1", (), False),
        ("tcp", 22, "10.1.0.1", ("sg-1",), True),
        ("tcp", 22, "10.1.0.1", ("sg-2",), False),
        ("udp", 9, "192.168.3.4", (), True),
        ("tcp", 53, "2600:1f18::1", (), True),
        ("tcp", 53, "10.9.0.1", (), False),
        ("tcp", 443, "52.216.0.1", (), True),
    ],
)
def test_a_rule_has_a_protocol_ports_and_a_peer(
    protocol: str, port: int, address: str, groups: tuple[str, ...], covered: bool
) -> None:
    rules = [
        ["tcp", 80, 89, "10.0.0.0/16"],
        ["tcp", 22, 22, "sg-1"],
        ["-1", None, None, "192.168.0.0/16"],
        ["tcp", 53, 53, "2600:1f18::/32"],
        ["tcp", 443, 443, "pl-s3"],
    ]
    lists = {"pl-s3": ["3.5.0.0/19", "52.216.0.0/15"]}
    given = {"address": address, "groups": groups, "prefix_lists": lists}
    assert is_covered(rules, protocol, port, **given) is covered


def test_ingress_rules_of_the_other_end_count(table: dict[str, Any], tmp_path: Path) -> None:
    reached = network(tmp_path, table).reaches
    assert reached("tcp", BESIDE, 5432)
    assert not reached("tcp", BESIDE, 5434)
    assert reached("tcp", f"::ffff:{BESIDE}", 5432)
    assert not reached("tcp", f"::ffff:{BESIDE}", 5434)
    assert reached("tcp", IPV6, 5432)
    assert not reached("tcp", IPV6, 5434)
    # Itself, this computer's other addresses, and other networks.
    for address in (OWN, "127.0.0.1", "127.192.0.4", "::1", "127.128.1.0", "198.51.100.1"):
        assert reached("tcp", address, 1)
    assert not reached("tcp", "127.64.0.77", 5432)


def test_a_prefix_list_stands_for_its_blocks(table: dict[str, Any], tmp_path: Path) -> None:
    table["groups"]["sg-own"]["out"] = [["tcp", 5432, 5432, "pl-1"]]
    reached = network(tmp_path, table).reaches
    assert reached("tcp", BESIDE, 5432)
    assert not reached("tcp", BESIDE, 5433)
    assert not reached("tcp", IPV6, 5432)
    assert not reached("tcp", "198.51.100.1", 5432)
    assert not reached("tcp", "127.128.1.0", 5432)


def test_another_vpc_is_reached_through_a_peering(table: dict[str, Any], tmp_path: Path) -> None:
    assert not network(tmp_path, table).reaches("tcp", OTHER_VPC, 80)
    table["peerings"] = [["vpc-1", "vpc-2"]]
    assert network(tmp_path, table).reaches("tcp", OTHER_VPC, 80)


def test_a_gateway_endpoint_leads_to_aws(table: dict[str, Any], tmp_path: Path) -> None:
    table["groups"]["sg-own"]["out"] = [["tcp", 443, 443, "pl-s3"]]
    assert not network(tmp_path, table).reaches("tcp", "127.0.0.1", 5000)
    table["gateways"] = {"vpc-2": ["pl-s3"]}
    assert not network(tmp_path, table).reaches("tcp", "127.0.0.1", 5000)
    table["gateways"] = {"vpc-1": ["pl-s3"]}
    assert network(tmp_path, table).reaches("tcp", "127.0.0.1", 5000)


def test_a_changed_table_is_read_and_a_removed_one_stays(
    table: dict[str, Any], tmp_path: Path
) -> None:
    one = network(tmp_path, table)
    assert one.reaches("tcp", BESIDE, 5432)
    assert one.resolve("Orders.DB.internal.") == BESIDE
    assert one.resolve("others.internal") == "others.internal"
    table["groups"]["sg-beside"]["in"] = []
    new = tmp_path / "new"
    new.write_text(json.dumps(table))
    new.rename(tmp_path / "network.json")
    assert not one.reaches("tcp", BESIDE, 5432)
    (tmp_path / "network.json").unlink()
    assert not one.reaches("tcp", BESIDE, 5432)


def test_python_gets_the_other_start_module_too(table: dict[str, Any], tmp_path: Path) -> None:
    network(tmp_path, table)
    other = tmp_path / "other"
    other.mkdir()
    program = (
        "import socket, sys\n"
        "print(hasattr(socket.socket.connect, '__wrapped__'), "
        "getattr(sys.modules['sitecustomize'], 'OTHER', None))"
    )

    def run(*folders: str, **environ: str) -> list[str]:
        return subprocess.run(
            [sys.executable, "-P", "-c", program],
            env={"PYTHONPATH": os.pathsep.join(folders), **environ},
            capture_output=True,
            text=True,
            check=True,
            timeout=PROCESS_SECONDS,
        ).stdout.split()

    environ = {NETWORK: str(tmp_path / "network.json"), OWN_ADDRESS: OWN}
    assert run(FOLDER, str(other), **environ) == ["True", "None"]
    (other / "sitecustomize.py").write_text("OTHER = 7\n")
    assert run(FOLDER, str(other), **environ) == ["True", "7"]
    assert run(FOLDER, str(other)) == ["False", "7"]
