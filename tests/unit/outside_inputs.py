"""Everything that is read from outside, each with what it should be and what reads it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import tomlkit
from hypothesis import strategies as st

from terradask._catalog.instance_types.listing import read_catalog
from terradask._catalog.instance_types.model import read_types
from terradask._catalog.prices.price_list import read_sheet, read_spot_price
from terradask._catalog.prices.prices import PriceKey
from terradask._catalog.prices.products import query_for, read_price, read_prices
from terradask._clusters.jobs.store import JobOutput
from terradask._clusters.lifetime import parse_duration
from terradask._dask.job import job_text
from terradask._network.baseline import BASELINE_FORMAT, parse_baseline
from terradask._observe.documents import (
    read_address,
    read_descriptor,
    read_host_reports,
    read_report,
    read_run,
)
from terradask._observe.events import read_events
from terradask._observe.keys import KeySet
from terradask._observe.run_costs.account import Observation, merge_observation, read_account
from terradask._observe.run_costs.totals import costs_of
from terradask._observe.store import parse_object
from terradask._plans.applied import HistoryEntry
from terradask._plans.basis import PlanArchive
from terradask._plans.summary import summarise
from terradask._software.archive_hashes import read_lock_file
from terradask._software.pylock import select_for_hosts
from terradask._software.pylock_file import conda_packages
from terradask._terraform.events import parse_event
from terradask._terraform.state.lock import LockInfo
from terradask._terraform.state.model import StateInfo, state_of
from terradask.errors import TerradaskError
from terradask.policy import evaluate
from terradask_host.agent.environment import check_lock
from terradask_host.agent.keys import write_keys
from terradask_host.config import load_config, parse_document
from terradask_host.documents import UNREADABLE
from terradask_host.errors import HostError
from terradask_host.host_scripts import read_script
from terradask_host.jobs import JobRecord, job_of, problem_of
from terradask_host.metadata import InstanceMetadata
from terradask_host.rules.job_tasks import JobTask
from terradask_host.rules.launch_problem import read_problem
from terradask_host.timing import Timing
from terradask_modules.caller_policies import parse_trust
from terradask_simulator.hosts.cloud_config import BootFailed, parse_cloud_config
from terradask_stacks.backend_options import read_backend_options
from terradask_stacks.hardware.quantities import parse_cores, parse_memory
from terradask_stacks.loading import load_settings, settings_in
from terradask_stacks.lock import read_lock
from terradask_stacks.settings import PolicySettings

from .account_facts import ACCOUNT, HOST
from .account_facts import PRICE as PRICE_OF_USE
from .damaged_documents import (
    AT,
    CLUSTER,
    EVENT,
    JOURNAL,
    KEYS,
    PRICE,
    PYLOCK,
    REPORT,
    RUN,
    SCHEDULER,
    SHEET,
    SPOT,
    STACK,
    STATE,
    TEXTS,
    TOML,
    UV_LOCK,
    VALUES,
    damaged,
    small_plan,
    stored,
)
from .host_facts import HOST_JSON


def policy_of(document: Any) -> None:
    evaluate(document, settings=PolicySettings(), today=date(2026, 11, 20))


def settings_of(document: Mapping[str, Any]) -> None:
    settings_in(tomlkit.dumps(document), Path("terradask.toml"))


def descriptor(document: Any) -> None:
    read_descriptor(document)


def metadata(answers: Mapping[str, str]) -> None:
    service = InstanceMetadata("http://127.0.0.1:1")
    service.get = lambda path: answers.get(path.rpartition("/")[2])  # type: ignore[method-assign]
    service.identity()
    service.spot_notice()


def in_file(read: Callable[[Path], Any]) -> Callable[[str], Any]:
    """Read a text out of a file."""

    def run(text: str) -> Any:
        from tempfile import TemporaryDirectory

        with TemporaryDirectory() as folder:
            path = Path(folder) / "etc/terradask/host.json"
            path.parent.mkdir(parents=True)
            path.write_text(text, encoding="utf-8", errors="surrogatepass")
            return read(path)

    return run


def read_pylock(path: Path) -> None:
    text = path.read_text(encoding="utf-8", errors="replace")
    select_for_hosts(text, path, "x86_64", folder=path.parent)
    conda_packages(text, path, "x86_64")


def account_of(document: Any) -> None:
    """Read an account, and whatever it says, bring it up to date and sum it up."""
    read = read_account(ACCOUNT.key, document)
    found = merge_observation(read, Observation(ACCOUNT.started_at + 9, {}, ()), is_over=True)
    for by in ("run", "owner", "group", "type", "tag:project"):
        json.dumps(costs_of([found], by=by).as_dict())
    sorted(found.unpriced(), key=str)


def job_record(document: Any) -> None:
    """Read a job's record, and show whatever it says."""
    found = JobRecord.read(document, "etl")
    job_text(found)
    json.dumps([found.state, found.exit_code, found.counts, [vars(task) for task in found.tasks]])


def submitted_job(document: Any) -> None:
    """Read a submitted job, and ask whether it can run."""
    problem_of(job_of(document, "etl"), {})


def keys_of(secret: Any) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        write_keys(secret, "worker", Path(folder))


def texts_of(document: Any) -> st.SearchStrategy[str]:
    return damaged(document).map(json.dumps) | TEXTS


def mapping_of(document: Any) -> st.SearchStrategy[Any]:
    return damaged(document).filter(lambda found: isinstance(found, dict))


def toml_of(document: Any) -> st.SearchStrategy[Any]:
    """Return damaged settings that TOML can say: no null, no text that is none."""

    def sayable(node: Any) -> bool:
        if isinstance(node, dict):
            return all(map(sayable, node.values()))
        return all(map(sayable, node)) if isinstance(node, list) else node is not None

    return damaged(document).filter(lambda found: isinstance(found, dict) and sayable(found))


@dataclass(frozen=True)
class Input:
    """Something that comes from outside: what it looks like, who reads it, and how it may be
    refused.
    """

    limiter: st.SearchStrategy[Any]
    read: Callable[[Any], Any]
    refused: tuple[type[Exception], ...] = (TerradaskError,)


MAPPINGS = st.dictionaries(st.text(max_size=8), VALUES, max_size=3)
VARIABLES = st.sampled_from(
    [
        "WORKSPACE__NAME",
        "CLUSTER__N_WORKERS",
        "CLUSTER__ENVIRON",
        "NETWORK__INGRESS",
        "NETWORK__CIDR",
        "X",
        "CLUSTER",
    ]
)
TAGS = st.sampled_from(
    [
        "terradask:role",
        "terradask:cluster",
        "terradask:group",
        "instance-id",
        "local-ipv4",
        "availability-zone",
    ]
)
#: Of a job, as submitted.
JOB = JobRecord(
    *("etl", "20261124T153000Z-1f3a9c4", "20261124T150000Z-aaaaaa", 1, ("echo", "{}")),
    *(("WORD",), 0, None, AT, None),
    tasks=(JobTask(0, "a"), JobTask(1, "b")),
)
_TYPES = PriceKey("instance", "us-east-1")
_SPOT = PriceKey("instance", "us-east-1", market="spot")
_OUTPUT = {"format": 1, "missed": 3, "pieces": [[1, "b3V0Cg=="], [2, "G1sySg=="]]}
_ACCOUNT = {
    **ACCOUNT.to_document(),
    "instances": [[HOST, "workers", "m6i.xlarge", "host", None, ACCOUNT.started_at, None, 0]],
    "prices": [{**vars(PRICE_OF_USE), "usd": "0.192"}],
}
_ENTRY = {
    "format": 1,
    "at": AT,
    "what": "applied",
    "stack": "etl",
    "by": "ada",
    "plan_sha256": None,
    "changes": {"add": 1},
}
_UNREADABLE = (*UNREADABLE, ArithmeticError)
INPUTS: dict[str, Input] = {
    "an account": Input(damaged(_ACCOUNT), account_of, _UNREADABLE),
    "the history": Input(damaged(_ENTRY), HistoryEntry.read, UNREADABLE),
    "settings, as text": Input(TEXTS, lambda text: settings_in(text, Path("terradask.toml"))),
    "settings": Input(toml_of(TOML), settings_of),
    "arguments": Input(
        mapping_of(TOML), lambda overrides: load_settings(environ={}, overrides=overrides)
    ),
    "variables": Input(
        st.dictionaries(
            VARIABLES.map("TERRADASK_{}".format), TEXTS | VALUES.map(json.dumps), max_size=3
        ),
        lambda environ: load_settings(environ=environ),
    ),
    "Dask's configuration": Input(
        MAPPINGS, lambda config: load_settings(environ={}, dask_config=config)
    ),
    "backend options": Input(MAPPINGS | VALUES, read_backend_options),
    "a plan, to its policy": Input(damaged(small_plan()), policy_of),
    "a stack, to its policy": Input(damaged(STACK), policy_of),
    "a plan, to be shown": Input(
        damaged(small_plan()), lambda plan: summarise(plan, stack="x", plan_hash="0")
    ),
    "a saved plan": Input(TEXTS, in_file(PlanArchive.read)),
    "Terraform's events": Input(texts_of(EVENT), parse_event, ()),
    "a state, as text": Input(
        texts_of(STATE).map(str.encode), lambda content: state_of(content, "s3://b/k")
    ),
    "a state": Input(damaged(STATE), StateInfo.from_json),
    "a lock of a state": Input(
        texts_of({"ID": "1", "Who": "me", "Created": AT}).map(str.encode), LockInfo.from_json, ()
    ),
    "a lock in words": Input(TEXTS, LockInfo.from_text, ()),
    "the locked answers": Input(
        texts_of({"format": 1, "network": {"account": "1"}}), in_file(read_lock)
    ),
    "the network's word": Input(
        texts_of({"format": BASELINE_FORMAT, "workspace": "default"}), parse_baseline
    ),
    "an object": Input(texts_of(RUN), lambda text: parse_object(text, "run.json")),
    "a host's object": Input(
        texts_of(REPORT), lambda text: parse_object(text, "hosts/i-1.json"), ()
    ),
    "a job's record": Input(mapping_of(JOB.to_document()), job_record, UNREADABLE),
    "a task's output": Input(mapping_of(_OUTPUT), JobOutput.read, UNREADABLE),
    "a submitted job": Input(mapping_of(JOB.to_document()), submitted_job, UNREADABLE),
    "a descriptor": Input(mapping_of(CLUSTER), descriptor),
    "a run": Input(mapping_of(RUN), read_run),
    "an address": Input(mapping_of(SCHEDULER), read_address),
    "a host's report": Input(mapping_of(REPORT), read_report),
    "hosts' reports": Input(st.lists(mapping_of(REPORT), max_size=2), read_host_reports, ()),
    "keys": Input(damaged(KEYS), KeySet.from_document),
    "a journal": Input(damaged(JOURNAL), read_events, ()),
    "instance types": Input(
        st.lists(damaged(stored("instance_types.json")[0]), max_size=3), read_types, ()
    ),
    "kept instance types": Input(VALUES, lambda document: read_catalog(document, "us-east-1"), ()),
    "a price": Input(
        st.lists(texts_of(PRICE), max_size=2),
        lambda entries: read_price(query_for(_TYPES), entries),
        (),
    ),
    "prices": Input(
        st.lists(texts_of(PRICE), max_size=2),
        lambda entries: read_prices(_TYPES, entries),
        (),
    ),
    "spot prices": Input(
        st.lists(damaged(SPOT), max_size=2),
        lambda entries: read_spot_price("m6i.xlarge", entries),
        (),
    ),
    "kept prices": Input(damaged(SHEET), lambda document: read_sheet(document, _SPOT, "x"), ()),
    "why a launch failed": Input(TEXTS, read_problem, ()),
    "cores": Input(VALUES, lambda value: parse_cores("n_cores", value)),
    "memory": Input(VALUES, lambda value: parse_memory("memory", value)),
    "a duration": Input(VALUES, lambda value: parse_duration("timeout", value)),
    "whom to trust": Input(TEXTS | TEXTS.map("github:a/{}".format), parse_trust),
    "host.json": Input(
        texts_of(HOST_JSON),
        in_file(lambda path: load_config({"TERRADASK_HOST_ROOT": str(path.parents[2])})),
        (HostError,),
    ),
    "a script in host.json": Input(
        VALUES, lambda value: read_script({"setup": value}, "setup"), (HostError,)
    ),
    "what a host reads": Input(
        texts_of(RUN) | st.binary(max_size=20),
        lambda text: parse_document(text, "run.json"),
        (HostError,),
    ),
    "time constants": Input(
        texts_of({"join_seconds": 5}),
        lambda text: Timing.from_environ({"TERRADASK_HOST_TIMING": text}),
        (HostError,),
    ),
    "versions": Input(TEXTS, check_lock, (HostError,)),
    "a lock file": Input(
        TEXTS | toml_of(UV_LOCK).map(tomlkit.dumps) | toml_of(PYLOCK).map(tomlkit.dumps),
        in_file(read_lock_file),
    ),
    "a file that software names": Input(
        TEXTS | toml_of(PYLOCK).map(tomlkit.dumps), in_file(read_pylock)
    ),
    "keys on a host": Input(mapping_of(KEYS), keys_of, (HostError,)),
    "metadata and tags": Input(
        st.dictionaries(TAGS, TEXTS | st.just("worker")) | st.just({"instance-action": "x"}),
        metadata,
        (HostError,),
    ),
    "user data": Input(
        (
            texts_of(
                {
                    "write_files": [
                        {"path": "/a", "content": "x", "encoding": "b64", "permissions": "0644"}
                    ]
                }
            )
        ).map(lambda text: f"#cloud-config\n{text}".encode(errors="surrogatepass"))
        | st.binary(max_size=20),
        parse_cloud_config,
        (BootFailed,),
    ),
}
