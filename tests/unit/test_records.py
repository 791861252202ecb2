"""The reader of records of real AWS: what it takes for a difference, and what it refuses."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from tests.records.compare import compare, compare_call
from tests.records.record import (
    ABSENT,
    DATA,
    Call,
    Case,
    Difference,
    RecordError,
    files,
    parse,
    read,
)
from tests.records.replay import Names
from tests.records.verdict import Replayed, told

SOURCES = {"somebody": {"repository": "https://example.com"}}
CALL = {"action": "ec2:DescribeVpcs", "status": 200, "answer": {}}
CASE = {
    "name": "two networks",
    "source": "somebody",
    "at": "test_networks",
    "evidence": "recorded",
    "calls": [CALL],
}


def case(**changed):
    return Case.model_validate(CASE | changed)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"evidence": "believed"}, "case 'two networks': evidence: Input should be"),
        ({"calls": [{**CALL, "stauts": 1}]}, "case 'two networks': calls[0].stauts: Extra inputs"),
        ({"calls": [{**CALL, "status": 404}]}, "case 'two networks': calls[0]: a refused call"),
        ({"calls": [{"action": "ec2:DescribeVpcs"}]}, "two networks': no call has a `status`"),
        ({"calls": [{"action": "ec2", "status": 200}]}, "calls[0].action: String should match"),
        ({"calls": [{**CALL, "answer": {"a": "$vpc"}}]}, "calls[0] (ec2:DescribeVpcs) names $vpc"),
        ({"switches": {"stop": {}}}, "case 'two networks': switches: there is no switch stop"),
        ({"source": "nobody"}, "case 'two networks': source: 'nobody' is not in `sources`"),
        ({"differs": "always", "unread": ["status"]}, "leave out `unread`"),
    ],
)
def test_a_malformed_case_is_refused_by_its_name_and_field(changed, said):
    with pytest.raises(RecordError) as refused:
        parse({"sources": SOURCES, "cases": [CASE | changed]}, "vpcs.json")
    assert str(refused.value).startswith("vpcs.json: ")
    assert said in str(refused.value)


def test_a_name_stands_for_one_case(tmp_path):
    file = tmp_path / "twice.json"
    file.write_text(json.dumps({"sources": SOURCES, "cases": [CASE, CASE]}))
    with pytest.raises(RecordError, match=r"twice.json: case 'two networks': name: used twice"):
        read(file)


@pytest.mark.parametrize(
    ("recorded", "ours", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": True}, ["a"]),
        ({"a": 1}, {}, ["a"]),
        ({}, {"a": {}}, ["a"]),
        ({"a": [1, 2]}, {"a": [2, 1]}, ["a[0]", "a[1]"]),
        ({"a": [1, 2]}, {"a": [1]}, ["a[1]"]),
        ({"u": [{"k": "<id>"}, {"k": "b"}]}, {"u": [{"k": "b"}, {"k": "a"}]}, []),
        ({"u": [1, 2]}, {"u": [2, 3]}, ["u[0]"]),
        ({"a": "vpc-<id>"}, {"a": "vpc-1"}, []),
        ({"a": "vpc-<id>"}, {"a": "subnet-1"}, ["a"]),
        ({"a": "<id>"}, {"a": ""}, ["a"]),
        ({"a": "<id>"}, {"a": 1}, ["a"]),
        ({"a": "<number>"}, {"a": 1}, []),
        ({"a": "<number>"}, {"a": "1"}, ["a"]),
        ({"a": "<time>"}, {"a": "2026-02-21T01:04:34+00:00"}, []),
        ({"a": "<time>"}, {"a": "yesterday"}, ["a"]),
        ({"a": {"b": 1}}, {"a": '{"b": 2}'}, ["a.b"]),
        ({"a": "<optional>"}, {}, []),
        ({"a": "<optional>"}, {"a": 1}, []),
        ({"a": ["x", "<more>"]}, {"a": []}, []),
        ({"a": ["<more>"]}, {"a": [{"k": 1}]}, []),
        ({"a": [{"k": "x"}, {"k": "y", "m": 1}, "<more>"]}, {"a": [{"k": "y"}, {"k": "x"}]}, []),
        ({"a": [{"k": "x"}, "<more>"]}, {"a": [{"k": "z"}, {"k": "z"}]}, ["a[].k"]),
        ({"a": [{"k": "x"}, "<more>"]}, {"a": [{"k": "x", "n": 1}, {}]}, ["a[].n", "a[].k"]),
        ({"a": [{"t": [{"k": 1}]}, "<more>"]}, {"a": [{"t": []}]}, []),
        ({"a": [{"t": "<any>"}, "<more>"]}, {"a": [{"t": {"k": [1]}}]}, []),
        ({"a": [{"t": "<text>"}, "<more>"]}, {"a": [{"t": 1}]}, ["a[].t"]),
    ],
)
def test_a_difference_has_its_path(recorded, ours, paths):
    assert [path for path, _, _ in compare(recorded, ours, "", ["u"])] == paths


@pytest.mark.parametrize(
    ("status", "error", "differ"),
    [
        (404, {"Code": "Gone", "Message": "The key k is gone"}, []),
        (400, {"Code": "Gone", "Message": "The key k is gone"}, ["status"]),
        (404, {"Code": "Lost", "Message": "The key k is gone"}, ["code"]),
        (404, {"Code": "Gone", "Message": "k is gone"}, ["message"]),
        (404, {"Code": "Gone", "Message": "The key k is gone", "Type": "Sender"}, ["Error"]),
        (200, {}, ["status", "code"]),
    ],
)
def test_a_refusal_is_compared(status, error, differ):
    call = Call(action="s3:GetObject", status=404, code="Gone", message="The key <id> is gone")
    call = call.model_copy(update={"answer": {}})
    found = compare_call(call, status, {"Error": error} if error else {}, Names(), [])
    assert [path for path, _, _ in found] == differ


@pytest.mark.parametrize(
    ("values", "differ"),
    [
        ({"Vpcs[0].State": "available", "Vpcs[0].Tags": None}, []),
        ({"Vpcs[?State=='pending'] | [0].CidrBlock": "10.1.0.0/16"}, ["Vpcs[?State=='pending'] "]),
        ({"Vpcs[0].State": None}, ["Vpcs[0].State"]),
    ],
)
def test_single_values_are_compared_where_a_record_has_no_more(values, differ):
    answer = {"Vpcs": [{"State": "available", "CidrBlock": "10.0.0.0/16"}]}
    call = Call.model_validate({"action": CALL["action"], "status": 200, "values": values})
    found = [path for path, _, _ in compare_call(call, 200, answer, Names(), [])]
    assert [path.split("|")[0] for path in found] == differ


def test_names_are_fresh_and_the_same_within_a_case():
    names = Names(now=1000)
    names.keep("number", "a.b", {"a": {"b": 7}})
    filled = names.filled(["$bucket", "$bucket", "${bucket}s", "$number", "n$number", "$Latest"])
    assert filled[0] == filled[1]
    assert filled[2] == f"{filled[0]}s"
    assert filled[3:] == [7, "n7", "$Latest"]
    assert names.filled(["$now-1000", "$now_ms+5"]) == ["1970-01-01T00:00:00+00:00", 1_000_005]
    assert Names().filled("$bucket") != filled[0]
    with pytest.raises(RecordError, match="keep vpc: nothing at Vpc in"):
        names.keep("vpc", "Vpc", {})


OWNER = Difference(0, "ec2:DescribeVpcs", "Vpcs[1].OwnerId", "1", ABSENT)
STATE = replace(OWNER, path="Vpcs[1].State")


@pytest.mark.parametrize(
    ("changed", "found", "verdict", "untrue"),
    [
        ({}, [], "agrees", []),
        ({}, [OWNER], "differs", [str(OWNER)]),
        ({"unread": ["Vpcs[].OwnerId"]}, [OWNER], "agrees but for unread fields", []),
        ({"unread": ["Vpcs[].OwnerId"]}, [OWNER, STATE], "differs", [str(STATE)]),
        ({"unread": ["Vpcs[].Owner"]}, [OWNER], "differs", None),
        ({"unread": ["Vpcs"]}, [], "agrees", None),
        ({"differs": "AWS has owners"}, [OWNER], "differs", []),
        ({"differs": "AWS has owners"}, [], "agrees", ["it agrees: remove `differs`"]),
        ({"not_replayed": "a host's own"}, [], "not replayed", []),
    ],
)
def test_a_case_must_be_as_its_file_tells(changed, found, verdict, untrue):
    replayed = Replayed(case(**changed), found)
    assert replayed.verdict == verdict
    assert replayed.untrue == untrue if untrue is not None else replayed.untrue
    if untrue == []:
        assert told(replayed.case) == verdict


def test_at_least_95_of_100_records_agree():
    cases = [case for path in files("*.json") for case in read(path).cases]
    differing = [case.name for case in cases if case.differs]
    assert len(cases) > 200
    assert len(differing) <= 0.05 * len(cases), differing


def test_every_file_of_records_has_a_test():
    """A file that no test replays would count as agreeing."""
    tests = [path.read_text() for path in (DATA.parent).glob("test_*.py")]
    patterns = [found for text in tests for found in re.findall(r'@of\("([^"]+)"\)', text)]
    replayed = {path for pattern in patterns for path in files(pattern)}
    assert replayed == set(files("*.json"))
