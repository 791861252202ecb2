"""What the tests' provider says of its types: some, unchanged."""

from __future__ import annotations

import json
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from ..provider_schema import Types, cut_down, types_in_use
from ..quick_provider import relay
from ..waiting import eventually

ROOT = Path(__file__).parents[2]

STARTER = """
import os, signal
from tests.quick_provider import relay
with relay() as path:
    print(path, flush=True)
    """


def field(number: int, content: bytes) -> bytes:
    length = len(content)
    assert length < 1 << 14
    return (
        bytes([number << 3 | 2])
        + (bytes([length]) if length < 128 else bytes([length & 0x7F | 0x80, length >> 7]))
        + content
    )


def entry(name: str, size: int = 3) -> bytes:
    return field(1, name.encode()) + field(2, b"x" * size)


def test_other_types_are_left_out_and_all_else_stays():
    provider, function = field(1, b"the provider's own"), field(7, entry("arn_parse"))
    vpc, big, role = (
        field(2, entry("aws_vpc")),
        field(2, entry("aws_route", 5000)),
        field(3, entry("aws_iam_role")),
    )
    others = [
        field(2, entry("aws_iam_role")),
        field(3, entry("aws_vpc")),
        field(2, entry("aws_vpcs", 300)),
    ]
    schema = b"".join([provider, others[0], vpc, others[1], big, role, others[2], function])
    assert cut_down(schema, Types({"aws_vpc", "aws_route"}, {"aws_iam_role"})) == b"".join(
        [provider, vpc, big, role, function]
    )


def test_what_is_no_schema_is_an_error():
    with pytest.raises(ValueError, match="wire type 0 at 0"):
        cut_down(bytes([1 << 3, 1]), Types((), ()))


def test_the_types_are_those_of_the_bindings():
    types = types_in_use()
    made = set(re.findall(r"\baws_[a-z0-9_]+", (ROOT / "tests/synth/addresses.txt").read_text()))
    assert made
    assert made <= set(types.resources)
    assert "aws_subnet" in types.data_sources
    assert not {"aws_provider", "aws_data_aws_subnet"} & set(types.resources)


def test_the_relay_is_its_owners_alone_and_tells_terraform_where_to_go():
    with relay() as path, socket.socket(socket.AF_UNIX) as launcher:
        assert Path(path).parent.stat().st_mode & 0o777 == 0o700
        launcher.connect(path)
        started = {"program": "/nowhere", "environ": {}, "folder": "/"}
        launcher.sendall(json.dumps(started).encode() + b"\n")
        with launcher.makefile() as said:
            core, protocol, kind, address, transport, certificate = (
                said.readline().strip().split("|")
            )
    assert (core, protocol, kind, transport) == ("1", "5", "unix", "grpc")
    assert Path(address).parent == Path(path).parent
    assert len(certificate) > 100


@pytest.mark.parametrize(
    "ended", ["os.kill(os.getpid(), signal.SIGKILL)", "os.killpg(0, signal.SIGTERM)"]
)
def test_the_relay_ends_with_whoever_started_it(ended: str):
    command = [sys.executable, "-c", STARTER + ended]
    started = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, start_new_session=True
    )
    assert started.returncode in {-signal.SIGKILL, -signal.SIGTERM}, started.stderr
    folder = Path(started.stdout.strip()).parent
    eventually(lambda: not folder.exists())
