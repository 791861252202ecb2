"""docs/upgrades.md: what clients, networks and hosts of two versions see of each other. Each row's
document is read by what reads it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgpack
import pytest

from terradask._dask.commands import read_reply
from terradask._network.baseline import BASELINE_FORMAT, Baseline, parse_baseline
from terradask._observe import documents
from terradask._observe.run_costs.account import read_account
from terradask._plans.applied import HISTORY_FORMAT, HistoryEntry
from terradask._plans.basis import PlanBasis
from terradask_host import commands
from terradask_host.commands import CancelJob
from terradask_host.config import parse_document
from terradask_host.documents import FORMAT, LifetimePolicy, Run, SchedulerAddress
from terradask_host.errors import HostError
from terradask_host.jobs import FORMAT as JOB_FORMAT
from terradask_host.jobs import job_of
from terradask_modules.errors import TerradaskError
from terradask_modules.names import LIMITS_FORMAT
from terradask_modules.user_data import HOST_FORMAT
from terradask_stacks import cluster_stack, workspace_document
from terradask_stacks.lock import LOCK_FORMAT, read_lock

from .baselines import baseline

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/upgrades.md"
ROWS = {
    (cells[0], cells[1]): (cells[2], cells[3])
    for line in PAGE.read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith(("| case", "| ---"))
    for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
}

IGNORED, DEFAULTS = "unknown fields are ignored", "missing fields have defaults"
LATER = {"format": FORMAT + 1, "terradask_version": "9.0.0", "cluster": "etl"}
NETWORK = {**baseline().model_dump(mode="json"), "format": BASELINE_FORMAT}
AT = "2026-11-20T05:15:00Z"
RUN = Run("r1", AT, "me", "v1", "3.12", {"dask": "1"}, 2, {}, {}, LifetimePolicy())
ADDRESS = SchedulerAddress("r1", "i-1", 1, "tls://10.64.0.5:8786", None, 8787, "3.12", {})


def _network(**changes: Any) -> str:
    parse_baseline(json.dumps({**NETWORK, **changes}))
    return IGNORED


def _bare_network() -> str:
    needed = {name for name, field in Baseline.model_fields.items() if field.is_required()}
    kept = {name: value for name, value in NETWORK.items() if name in needed | {"format"}}
    assert len(kept) < len(NETWORK)
    parse_baseline(json.dumps(kept))
    return DEFAULTS


def _ignores(document: Run | SchedulerAddress) -> str:
    text = json.loads(json.dumps(document.to_document()))
    assert type(document).read({**text, "later": 1}) == type(document).read(text)
    return IGNORED


def _host(name: str, document: dict[str, Any]) -> str:
    parse_document(json.dumps(document), name)
    return IGNORED


def _command(reply: dict[str, Any]) -> Any:
    return read_reply("etl", CancelJob("j1"), msgpack.packb(reply))


def _lock(folder: Path, document: dict[str, Any]) -> Any:
    path = folder / "terradask.lock.json"
    path.write_text(json.dumps(document))
    return read_lock(path)


def _network_lock() -> dict[str, Any]:
    network = {"account": "123456789012", "zones": {"us-east-1a": 0}, "image_ids": {}}
    return {"format": LOCK_FORMAT, "network": {**network, "later": 1}}


def _postcondition() -> str:
    golden = ROOT / "tests/synth/golden/cluster-default.tf.json"
    return "was deployed by another version of terradask" * (
        "was deployed by another version of terradask" in golden.read_text()
        and f"jsondecode(self.body).format, 0) == {BASELINE_FORMAT}" in golden.read_text()
    )


def _old_plan() -> None:
    texts = {field.name: "" for field in fields(PlanBasis)}
    planned: Any = SimpleNamespace(**{**texts, "stack": "network", "terradask_version": "0.0.9"})
    planned._same = lambda *given: PlanBasis._same(planned, *given)
    where: Any = SimpleNamespace(workspace="", account="", region="")
    PlanBasis.check_origin(planned, where, terraform_version="")


CASES: dict[tuple[str, str], Callable[[Path], Any]] = {
    ("older client, later network", "`workspace.json`"): lambda _: _network(
        format=BASELINE_FORMAT + 1, terradask_version="9.0.0"
    ),
    ("newer client, earlier network", "`workspace.json`"): lambda _: _network(
        format=BASELINE_FORMAT - 1
    ),
    ("older client, newer network of the same format", "`workspace.json`"): lambda _: _network(
        later=1
    ),
    ("newer client, older network of the same format", "`workspace.json`"): lambda _: (
        _bare_network()
    ),
    ("`cdktf deploy` of a cluster, another network", "`workspace.json`"): lambda _: (
        _postcondition()
    ),
    ("older client, later cluster", "`cluster.json`"): lambda _: documents.read_descriptor(
        LATER, "etl"
    ),
    ("older client, run of a later client", "`run.json`"): lambda _: documents.read_run(LATER),
    ("older client, run of a newer client of the same format", "`run.json`"): lambda _: _ignores(
        RUN
    ),
    ("older client, later host", "`scheduler.json`"): lambda _: documents.read_address(LATER),
    ("older client, newer host of the same format", "`scheduler.json`"): lambda _: _ignores(
        ADDRESS
    ),
    ("older host, later client", "`run.json`"): lambda _: _host("run.json", LATER),
    ("older host, newer client of the same format", "`run.json`"): lambda _: _host(
        "run.json", {**json.loads(json.dumps(RUN.to_document())), "later": 1}
    ),
    ("older host, later network", "`host.json`"): lambda _: _host("host.json", LATER),
    ("older host, later network", "`host/limits.json`"): lambda _: _host("host/limits.json", LATER),
    ("older host, command of a newer client", "commands"): lambda _: _command(
        {"format": commands.FORMAT, "unknown": True}
    ),
    ("older client, later host", "commands"): lambda _: _command({"format": commands.FORMAT + 1}),
    ("another client, later answers", "`terradask.lock.json`"): lambda folder: _lock(
        folder, {"format": LOCK_FORMAT + 1}
    ),
    ("another client, later answers of the same format", "`terradask.lock.json`"): lambda folder: (
        _lock(folder, _network_lock())
    ),
    ("client, saved plan of another version", "plan"): lambda _: _old_plan(),
    ("client, later history", "`history/`"): lambda _: HistoryEntry.read(
        {"format": HISTORY_FORMAT + 1}
    ),
    ("client, later account of a run", "`accounts/`"): lambda _: read_account("r/etl.json", LATER),
    ("client, later job", "`job.json.gz`"): lambda _: job_of({"format": JOB_FORMAT + 1}, "etl"),
}


def test_the_page_has_these_cases() -> None:
    assert ROWS.keys() == CASES.keys()


def _outcome(case: tuple[str, str], folder: Path) -> tuple[str, str]:
    """Return a case's result and text, as the page has them."""
    result = ROWS[case][0]
    try:
        text = CASES[case](folder)
    except (TerradaskError, HostError) as error:
        name, problem = type(error).__name__, error.problem.replace(f"{folder}/", "")
        # A plan's way out is the same as for each of its refusals.
        is_named = error.advice is not None and name != "PlanChanged"
        return f"`{name}`", f"{problem}; to do: {error.advice}" if is_named else problem
    except ValueError as error:
        return f"{result.removesuffix(' is left out')} is left out", str(error)
    return result if result == "Terraform's postcondition" else "works", text


@pytest.mark.parametrize("case", CASES, ids=" ".join)
def test_a_row_is_what_happens(case: tuple[str, str], tmp_path: Path) -> None:
    assert _outcome(case, tmp_path) == ROWS[case]


def test_both_ends_write_what_the_other_reads() -> None:
    """One number has two constants where packages can't share one."""
    assert workspace_document.WORKSPACE_FORMAT == BASELINE_FORMAT == cluster_stack.WORKSPACE_FORMAT
    assert cluster_stack.CLUSTER_FORMAT == HOST_FORMAT == LIMITS_FORMAT == FORMAT


#: Files with a format -> why an upgrade meets it in no row, or None if a row has it.
WITH_FORMATS = {
    "cluster/terradask/_catalog/instance_types/listing.py": "a cache",
    "cluster/terradask/_catalog/prices/price_list.py": "a cache",
    "cluster/terradask/_clusters/starting.py": "starts of the last minutes",
    "cluster/terradask/_doctor/account_check/check.py": "written for people",
    "cluster/terradask/_network/baseline.py": None,
    "cluster/terradask/_observe/events.py": "another format is no event",
    "cluster/terradask/_plans/applied.py": None,
    "cluster/terradask/_plans/policy/writers.py": "output",
    "cluster/terradask/_plans/report.py": "output",
    "cluster/terradask/_plans/saved.py": None,
    "cluster/terradask/_plans/summary.py": "output",
    "cluster/terradask/_software/named_environments.py": "built again",
    "cluster/terradask/_software/pylock_file.py": "its error names the format",
    "cluster/terradask/_terraform/state/unlock.py": "a record, which nothing reads",
    "host/terradask_host/commands.py": None,
    "host/terradask_host/documents.py": None,
    "host/terradask_host/jobs.py": None,
    "modules/terradask_modules/names.py": None,
    "modules/terradask_modules/user_data.py": None,
    "stacks/terradask_stacks/cluster_stack.py": None,
    "stacks/terradask_stacks/lock.py": None,
    "stacks/terradask_stacks/workspace_document.py": None,
}


def test_every_format_has_a_row_or_a_reason() -> None:
    defines = re.compile(r"^_?[A-Z_]*FORMAT *= *\d", re.MULTILINE)
    found = {
        str(path.relative_to(ROOT))
        for root in ("cluster", "host", "stacks", "modules")
        for path in (ROOT / root).rglob("*.py")
        if defines.search(path.read_text(encoding="utf-8"))
    }
    assert found == WITH_FORMATS.keys()
