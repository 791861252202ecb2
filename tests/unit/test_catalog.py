"""When AWS is asked for a region's instance types, and when the disk is."""

from __future__ import annotations

import datetime
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._aws.endpoints import cache_name
from terradask._aws.session import Aws
from terradask._catalog.instance_types.listing import catalog_document, load_catalog, read_catalog
from terradask._common.disk_cache import DiskCache
from terradask.errors import AccessDenied

DESCRIBED: list[dict[str, Any]] = json.loads(
    (Path(__file__).parent / "data/instance_types.json").read_text()
)
START = datetime.datetime(2026, 11, 1, 12, tzinfo=datetime.UTC)
OFFERED = {
    "us-east-1a": ["m6i.xlarge", "c7g.large", "mac1.metal"],
    "us-east-1b": ["m6i.xlarge", "g6f.large"],
    "us-east-1-bos-1a": ["t3.medium"],
}


class FakeAws:
    """A session that answers page by page, and counts what it is asked."""

    def __init__(
        self, endpoint: str = "https://ec2.us-east-1.amazonaws.com", account: str = "123456789012"
    ) -> None:
        self.region = "us-east-1"
        self.endpoint = endpoint
        self.account_id = account
        self.offered = OFFERED
        self.refused: dict[str, str] = {}
        self.asked: list[str] = []

    def client(self, _name: str) -> Any:
        return SimpleNamespace(
            meta=SimpleNamespace(endpoint_url=self.endpoint),
            can_paginate=bool,
            get_paginator=self.paginator,
        )

    def paginator(self, operation: str) -> Any:
        def paginate(**question: Any) -> list[dict[str, Any]]:
            self.asked.append(operation)
            if operation in self.refused:
                raise AccessDenied(operation, self.refused[operation])
            if operation == "describe_instance_types":
                return [
                    {"InstanceTypes": DESCRIBED[:5]},
                    {"InstanceTypes": []},
                    {"InstanceTypes": DESCRIBED[5:]},
                ]
            assert question["LocationType"] == "availability-zone"
            return [
                {
                    "InstanceTypeOfferings": [
                        {"InstanceType": name, "Location": zone} for name in names
                    ]
                }
                for zone, names in self.offered.items()
            ]

        return SimpleNamespace(paginate=paginate)


@pytest.fixture
def aws() -> FakeAws:
    return FakeAws()


@pytest.fixture
def cache(tmp_path: Path) -> DiskCache:
    return DiskCache("catalogs", tmp_path)


def load(aws: FakeAws, cache: DiskCache | None, *, after: float = 0, **options: Any) -> Any:
    now = START + datetime.timedelta(hours=after)
    return load_catalog(cast(Aws, aws), cache=cache, now=lambda: now, **options)


def test_a_catalog_holds_what_zones_of_the_region_offer_and_linux_runs_on(aws, cache):
    catalog = load(aws, cache)
    assert catalog.region == "us-east-1"
    assert set(catalog.types) == {"m6i.xlarge", "c7g.large", "g6f.large"}
    assert catalog.zones == {
        "us-east-1a": {"m6i.xlarge", "c7g.large"},
        "us-east-1b": {"m6i.xlarge", "g6f.large"},
    }
    assert catalog.zones_with("m6i.xlarge") == ("us-east-1a", "us-east-1b")
    assert catalog.fetched_at == START


def test_aws_is_asked_once_a_day(aws, cache):
    first = load(aws, cache)
    assert load(aws, cache, after=23.9) == first
    assert len(aws.asked) == 2
    assert load(aws, cache, after=24).fetched_at > first.fetched_at
    assert len(aws.asked) == 4


def test_aws_is_asked_when_somebody_wants_it_or_a_clock_was_wrong(aws, cache):
    load(aws, cache)
    load(aws, cache, after=1, refresh=True)
    assert len(aws.asked) == 4
    load(aws, cache, after=-5)
    assert len(aws.asked) == 6


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 99}',
        '{"region": "eu-west-1"}',
        '{"fields": ["name"]}',
        '{"types": [["m6i.xlarge"]]}',
        '{"types": []}',
        '{"types": 5}',
        '{"zones": {"us-east-1a": ["gone.large"]}}',
        '{"zones": null}',
        '{"fetched_at": "yesterday"}',
        '{"fetched_at": "2026-11-01T12:00:00"}',
    ],
)
def test_a_damaged_file_is_read_anew(aws, cache, tmp_path, damage):
    first = load(aws, cache)
    (file,) = tmp_path.rglob("*.json")
    whole = json.loads(file.read_text())
    file.write_text(
        json.dumps({**whole, **json.loads(damage)}) if damage.startswith('{"') else damage
    )
    assert load(aws, cache) == first
    assert len(aws.asked) == 4
    assert json.loads(file.read_text()) == whole


def test_documents_come_back_as_they_were(aws, cache):
    catalog = load(aws, cache)
    assert read_catalog(json.loads(json.dumps(catalog_document(catalog))), "us-east-1") == catalog


def test_accounts_regions_and_endpoints_do_not_mix(aws, cache):
    load(aws, cache)
    other = FakeAws(account="999999999999")
    other.offered = {"us-east-1c": ["m6i.xlarge"]}
    assert set(load(other, cache).zones) == {"us-east-1c"}
    elsewhere = FakeAws(endpoint="https://aws.example.com:4566")
    elsewhere.offered = {"us-east-1d": ["m6i.xlarge"]}
    assert set(load(elsewhere, cache).zones) == {"us-east-1d"}
    assert set(load(aws, cache).zones) == {"us-east-1a", "us-east-1b"}


def test_an_endpoint_on_this_machine_keeps_its_types_in_its_own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    aws = FakeAws(endpoint="http://127.0.0.1:4566")
    monkeypatch.delenv("TERRADASK_STATE_DIR", raising=False)
    for _ in range(2):
        load(aws, None)
    assert len(aws.asked) == 4
    assert list(tmp_path.rglob("*.json")) == []
    monkeypatch.setenv("TERRADASK_STATE_DIR", str(tmp_path / "state"))
    for _ in range(2):
        load(aws, None)
    assert len(aws.asked) == 6
    assert [path.relative_to(tmp_path).parts[:2] for path in tmp_path.rglob("*.json")] == [
        ("state", "catalogs")
    ]


def test_a_refusal_keeps_nothing(aws, cache, tmp_path):
    aws.refused["describe_instance_type_offerings"] = "You are not authorized to perform this."
    with pytest.raises(AccessDenied):
        load(aws, cache)
    assert list(tmp_path.rglob("*")) == []


def test_a_cache_that_cannot_be_written_is_left_out(aws, tmp_path):
    (tmp_path / "file").write_text("")
    assert load(aws, DiskCache("catalogs", tmp_path / "file")).types


def test_whoever_reads_while_others_write_gets_whole_documents(tmp_path):
    cache = DiskCache("x", tmp_path)
    documents = [{"number": number, "filling": "x" * 50_000} for number in range(4)]
    cache.write(documents[0], "a", "b")
    with ThreadPoolExecutor(8) as pool:
        writes = [pool.submit(cache.write, document, "a", "b") for document in documents * 10]
        reads = [pool.submit(cache.read, "a", "b") for _ in range(100)]
        assert all(read.result() in documents for read in reads)
        assert all(write.exception() is None for write in writes)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["b.json"]


@pytest.mark.parametrize(
    ("endpoint", "place"),
    [
        (None, "aws"),
        ("https://ec2.eu-west-1.amazonaws.com", "aws"),
        ("https://ec2.cn-north-1.amazonaws.com.cn", "aws"),
        ("https://ec2.us-east-1.api.aws", "aws"),
        ("https://amazonaws.com.example.com", "amazonaws.com.example.com"),
        ("http://10.0.0.5:4566", "10.0.0.5:4566"),
        ("http://localhost:4566", None),
        ("http://127.3.2.1:4566", None),
    ],
)
def test_answers_are_kept_by_who_gave_them(endpoint, place):
    assert cache_name(endpoint) == place
