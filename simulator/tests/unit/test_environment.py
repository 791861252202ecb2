"""Address ranges, environment and errors of the embedded AWS."""

import ipaddress
import json
import os
import pickle
import sys

import pytest

from terradask_simulator import LeftRunning, PortTaken, lifecycle
from terradask_simulator.aws.fidelity.addresses import public_address_source
from terradask_simulator.aws.fidelity.group_schedules import parse_time
from terradask_simulator.environment import complete, overlay, without_aws
from terradask_simulator.errors import NoFreeRange, PlatformUnsupported
from terradask_simulator.process import INFO_NAME, SimulatorInfo, created_at
from terradask_simulator.reservations import bind, claim_slot


def test_simulators_side_by_side_get_ranges_of_their_own():
    port = 31337
    first = claim_slot(first=120, last=121, port=port)
    second = claim_slot(first=120, last=121, port=port)
    try:
        assert (first.vpc_cidr, second.vpc_cidr) == ("127.120.0.0/16", "127.121.0.0/16")
        assert second.public_cidr == "127.185.0.0/16"
        with pytest.raises(NoFreeRange, match="terradask sim stop"):
            claim_slot(first=120, last=121, port=port)
    finally:
        first.release()
        second.release()
    again = claim_slot(first=120, last=121, port=port)
    again.release()
    assert again.octet == 120


def test_windows_is_refused(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    with pytest.raises(PlatformUnsupported, match="Windows"):
        claim_slot()


def test_a_machine_without_loopback_addresses_is_told_what_it_needs():
    # 192.0.2.0/24 is nobody's: binding there fails as 127.64.0.1 does on macOS.
    from terradask_simulator import reservations

    class Elsewhere(reservations.socket.socket):
        def bind(self, address):
            super().bind(("192.0.2.1", address[1]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reservations.socket, "socket", Elsewhere)
        with pytest.raises(PlatformUnsupported, match="macOS"):
            claim_slot()


def test_a_taken_port_is_named():
    taken = bind(0)
    try:
        with pytest.raises(PortTaken, match="choose another port") as caught:
            bind(taken.getsockname()[1])
        assert caught.value.port == taken.getsockname()[1]
        assert pickle.loads(pickle.dumps(caught.value)).port == caught.value.port
    finally:
        taken.close()


def test_what_was_left_survives_pickling():
    error = pickle.loads(pickle.dumps(LeftRunning(["instance i-1"], returncode=7)))
    assert (error.left, error.returncode) == (["instance i-1"], 7)
    assert "instance i-1" in str(error)


def test_public_addresses_go_round_and_leave_the_edges_free():
    another = public_address_source("127.200.0.0/22")
    addresses = [another() for _ in range(512)]
    assert len(set(addresses)) == 512
    assert addresses[0] == "127.200.1.0"
    assert addresses[-1] == "127.200.2.255"
    assert another() == addresses[0]
    assert all(
        ipaddress.ip_address(one) in ipaddress.ip_network("127.200.0.0/22") for one in addresses
    )


def test_the_environment_leads_to_the_simulator_and_nowhere_else(tmp_path):
    around = {
        "PATH": "/bin",
        "AWS_PROFILE": "production",
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "x",
        "AWS_SESSION_TOKEN": "x",
        "AWS_CA_BUNDLE": "/x",
        "AWS_ENDPOINT_URL_S3": "https://elsewhere",
        "AWS_CONFIG_FILE": "/home/me/.aws/config",
        "NO_PROXY": "example.org",
        "TERRADASK_CLUSTER__N_WORKERS": "3",
    }
    changes = overlay(
        endpoint_url="http://127.0.0.1:5",
        region="eu-west-1",
        vpc_cidr="127.64.0.0/16",
        state_dir=tmp_path,
        environ=around,
    )
    whole = complete(changes, around)
    assert whole["AWS_ENDPOINT_URL"] == "http://127.0.0.1:5"
    assert (
        whole["AWS_REGION"]
        == whole["AWS_DEFAULT_REGION"]
        == whole["TERRADASK_WORKSPACE__REGION"]
        == "eu-west-1"
    )
    assert whole["AWS_EC2_METADATA_DISABLED"] == "true"
    assert whole["TERRADASK_NETWORK__CIDR"] == "127.64.0.0/16"
    assert json.loads(whole["TERRADASK_NETWORK__INGRESS"]) == [
        {"ports": ["8786-8788"], "cidr": "127.0.0.0/8", "description": "loopback"}
    ]
    assert whole["TERRADASK_STATE_DIR"] == str(tmp_path)
    assert (
        whole["TERRADASK_WORKSPACE__OWN_ADDRESS_URL"] == "http://127.0.0.1:5/terradask-sim/address"
    )
    assert whole["AWS_CONFIG_FILE"].startswith(str(tmp_path))
    assert whole["NO_PROXY"] == "example.org,127.0.0.1,localhost,127.0.0.0/8"
    assert (whole["PATH"], whole["TERRADASK_CLUSTER__N_WORKERS"]) == (f"{tmp_path}/bin:/bin", "3")
    assert whole["AWS_SHARED_CREDENTIALS_FILE"] == f"{tmp_path}/credentials"
    gone = {"AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"}
    assert not (gone | {"AWS_CA_BUNDLE", "AWS_ENDPOINT_URL_S3"}) & whole.keys()


def test_the_daemon_itself_knows_nothing_of_aws():
    assert without_aws({"AWS_PROFILE": "x", "AWS_ENDPOINT_URL": "y", "HOME": "/h"}) == {
        "HOME": "/h"
    }


def test_times_are_utc_whatever_they_come_as():
    assert (
        parse_time("2026-11-20T05:00:00Z")
        == parse_time("2026-11-20T07:00:00+02:00")
        == parse_time("2026-11-20T05:00:00")
    )
    assert parse_time(None) is None
    assert parse_time("") is None


def test_a_process_finds_the_simulator_whose_environment_it_has(tmp_path, monkeypatch):
    facts = {
        "port": 1,
        "endpoint_url": "http://127.0.0.1:1",
        "region": "us-east-1",
        "account": "123456789012",
    }
    addresses = {
        "vpc_cidr": "127.64.0.0/16",
        "public_cidr": "127.128.0.0/16",
        "state_dir": str(tmp_path),
        "boot_hosts": True,
    }
    mine = SimulatorInfo(pid=os.getpid(), created=created_at(os.getpid()), **facts, **addresses)
    (tmp_path / INFO_NAME).write_text(json.dumps(mine.as_dict()))
    monkeypatch.setattr(lifecycle, "info_path", lambda: tmp_path / "none.json")
    monkeypatch.setenv("TERRADASK_STATE_DIR", str(tmp_path))
    assert lifecycle.of_this_environment() == mine
    assert lifecycle.status() is None
    (tmp_path / INFO_NAME).write_text(json.dumps(mine.as_dict() | {"created": 0.0}))
    assert lifecycle.of_this_environment() is None
