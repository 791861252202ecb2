"""What runs on a host, or may write the workspace's objects, writes documents that are large, of
other types, with escape sequences and markup, and under keys that no cluster has.
"""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from rich.console import Console

from terradask import LiveView, Workspace
from terradask._aws.session import Aws
from terradask._dask.widgets import TerminalWidget
from terradask._observe import store
from terradask._observe.documents import read_address, read_host_reports, read_run
from terradask._observe.record import ClusterRecord
from terradask._observe.store import HOSTS, MOST_BYTES, RUN, SCHEDULER, ClusterObjects
from terradask.errors import DocumentFormat
from terradask_simulator.aws.fidelity import placement_groups

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"
ESCAPE = "\x1b]0;x\x07\x1b[2J\n"
RUN_DOCUMENT: dict[str, Any] = {
    "format": 1,
    "run_id": "r1",
    "started_at": "2026-11-20T05:15:00Z",
    "owner": "arn",
    "secret_version_id": "v1",
    "python": "3.11",
    "packages": {"dask": "1"},
    "n_workers": 1,
    "environ": {"TEXT": "a\x1b[0m\nb"},
}
ADDRESS: dict[str, Any] = {
    "format": 1,
    "run_id": "r1",
    "instance_id": "i-1",
    "boot": 1,
    "private_address": "tls://10.0.0.1:8786",
    "public_address": None,
    "dashboard_port": 8787,
    "python": "3.11",
    "packages": {"dask": "1"},
}


@pytest.fixture
def aws() -> Iterator[Aws]:
    # moto has none, which a sweep looks for.
    placement_groups.install()
    with moto_account():
        found = Aws("us-east-1")
        found.client("s3").create_bucket(Bucket=BUCKET)
        yield found


def put(key: str, body: bytes) -> None:
    boto3.client("s3", "us-east-1").put_object(Bucket=BUCKET, Key=key, Body=body)


def test_a_large_document_is_not_read(aws: Aws, caplog: pytest.LogCaptureFixture) -> None:
    objects = ClusterObjects(aws, BUCKET, "etl")
    for name in (RUN, SCHEDULER):
        put(f"clusters/etl/{name}", b" " * (MOST_BYTES[name] + 1))
        with pytest.raises(DocumentFormat, match="too large") as refused:
            objects.read(name)
        assert f"s3://{BUCKET}/clusters/etl/{name}" in str(refused.value.given)
    put("clusters/etl/hosts/i-1.json", b" " * (MOST_BYTES[HOSTS] + 1))
    assert read_host_reports(objects.hosts()) == []
    assert "report is ignored" in caplog.text
    put(f"clusters/etl/{RUN}", json.dumps(RUN_DOCUMENT).encode())
    assert objects.read(RUN) == RUN_DOCUMENT


@pytest.mark.parametrize("document", [{"format": 1}, {"format": 9, "cluster": ["x"]}])
def test_a_structure_that_names_no_cluster_is_refused_by_the_clusters_name(
    aws: Aws, document: dict[str, Any]
) -> None:
    put("clusters/etl/cluster.json", json.dumps(document).encode())
    with pytest.raises(DocumentFormat, match="Cluster 'etl'") as refused:
        ClusterRecord(aws, BUCKET, "etl").read_descriptor()
    assert str(refused.value.advice).startswith("terradask apply etl")


def test_of_many_reports_the_newest_are_read(aws: Aws, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "MOST_REPORTS", 3)
    objects = ClusterObjects(aws, BUCKET, "etl")
    for minute, number in enumerate((5, 1, 4, 2, 3)):
        written = datetime.datetime(2026, 11, 22, 12, minute)
        monkeypatch.setattr("moto.s3.models.utcnow", lambda written=written: written)
        objects.write(f"{HOSTS}i-{number}.json", {"number": number})
    assert [report["number"] for report in objects.hosts()] == [2, 3, 4]


@pytest.mark.parametrize("field", [name for name in RUN_DOCUMENT if name != "format"])
@pytest.mark.parametrize("value", [["a"], {"a": [1]}, 1.5, True])
def test_a_run_with_a_value_of_another_type_is_refused(field: str, value: Any) -> None:
    with pytest.raises(DocumentFormat):
        read_run({**RUN_DOCUMENT, field: value})


@pytest.mark.parametrize("field", [name for name in ADDRESS if name != "format"])
@pytest.mark.parametrize("value", [["a"], {"a": [1]}, 1.5, True])
def test_an_address_with_a_value_of_another_type_is_refused(field: str, value: Any) -> None:
    with pytest.raises(DocumentFormat):
        read_address({**ADDRESS, field: value})


def hostile(document: dict[str, Any]) -> dict[str, Any]:
    """Return a document with escape sequences in all texts that people may see."""

    def inside(value: Any) -> Any:
        if isinstance(value, dict):
            return {f"{key}{ESCAPE}": inside(each) for key, each in value.items()}
        return f"{value}{ESCAPE}" if isinstance(value, str) else value

    return {k: v if k == "environ" else inside(v) for k, v in document.items()}


def test_no_escape_sequence_reaches_a_terminal() -> None:
    address = read_address({**hostile(ADDRESS), "ended": {"at": ESCAPE, "reason": ESCAPE}})
    run = read_run(hostile(RUN_DOCUMENT))
    texts = [
        *(
            value
            for one in (address, run)
            for value in vars(one).values()
            if isinstance(value, str)
        ),
        *(text for one in (address, run) for pair in one.packages.items() for text in pair),
        str(address.ended.reason if address.ended else ""),
    ]
    assert len(texts) > 10
    assert not {letter for text in texts for letter in text if not letter.isprintable()} - {"\n"}
    # Hosts give it to processes as it is.
    assert run.environ == RUN_DOCUMENT["environ"]


def test_nothing_in_a_message_is_markup() -> None:
    out = io.StringIO()
    widget = TerminalWidget(Console(file=out, force_terminal=True, width=80))
    widget.update(LiveView("etl", "making", step="no disk [/x][link=http://evil]here"))
    widget.update(LiveView("etl", "making", notes=("kept [/x][link=http://evil]here",)))
    widget.close()
    assert "kept [/x][link=http://evil]here" in out.getvalue()


def test_a_key_that_no_cluster_has_is_listed_and_hides_nothing(
    aws: Aws, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_REGION", "us-east-1")
    put("clusters/No Cluster/hosts/x", b"{}")
    put("clusters/stray", b"{}")
    put("clusters/\x1b[2Jx/cluster.json", b"{}")
    put("clusters/broken/cluster.json", b"no JSON")
    put("clusters/half/hosts/i-1.json", b"{}")
    (tmp_path / "terradask.toml").write_text('[workspace]\nregion = "us-east-1"\n')
    workspace = Workspace.load(tmp_path)
    found = {one.name: one.state for one in workspace.overview()}
    assert found == {
        "clusters/No Cluster/hosts/x": "strange",
        "clusters/\N{REPLACEMENT CHARACTER}[2Jx/cluster.json": "strange",
        "clusters/stray": "strange",
        "broken": "unreadable",
        "half": "unfinished",
    }
    swept = workspace.strays(grace_seconds=-2)
    assert set(swept.strange_keys) == {name for name, state in found.items() if state == "strange"}
    assert swept.as_dict()["strange_keys"] == list(swept.strange_keys)
