"""Whatever is read from outside, be it nonsense: it is read, or refused with the one error that its reader promises.

Documents are real ones with parts taken away and replaced, besides plain nonsense. A few of each run with the suite, the same each time;
thousands, drawn anew, with `make soak`.
"""

from __future__ import annotations

import copy
import json
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import tomlkit
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from terradask._aws.launch_problem import read_problem
from terradask._deployments.archive_hashes import read_lock_file
from terradask._deployments.documents import read_address, read_descriptor, read_host_reports, read_report, read_run
from terradask._deployments.events.gather import events_in
from terradask._deployments.keys import KeySet
from terradask._deployments.lifetime import parse_duration
from terradask._deployments.store import parse_object
from terradask._instance_types.catalog import read_catalog
from terradask._instance_types.model import read_types
from terradask._network.baseline import BASELINE_FORMAT, parse_baseline
from terradask._plans.basis import PlanArchive
from terradask._plans.summary import summarise
from terradask._pricing.price_cache import read_sheet
from terradask._pricing.products import query_for_instances, read_instance_prices, read_price
from terradask._pricing.spot_prices import read_spot_price
from terradask._terraform.events import parse_event
from terradask._terraform.state.lock_info import LockInfo
from terradask._terraform.state.model import StateInfo, state_of
from terradask.errors import TerradaskError
from terradask.policy import evaluate
from terradask_host.agent.environment import check_lock
from terradask_host.agent.keys import write_keys
from terradask_host.config import load_config, parse_document
from terradask_host.errors import HostError
from terradask_host.metadata import InstanceMetadata
from terradask_host.timing import Timing
from terradask_modules.caller_policies import parse_trust
from terradask_simulator.hosts.cloud_config import BootFailed, parse_cloud_config
from terradask_stacks.backend_options import read_backend_options
from terradask_stacks.hardware.quantities import parse_cores, parse_memory
from terradask_stacks.loading import load_settings, settings_in
from terradask_stacks.lock import read_lock
from terradask_stacks.settings import PolicySettings

from .host_facts import HOST_JSON, SECRET

DATA = Path(__file__).with_name("data")
IN_SUITE, IN_SOAK = 20, 2000
#: Never to be seen in an error, wherever it was given.
PLANTED = "correct-horse-battery-staple"

PLAIN = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3), max_leaves=6
)
TEXTS = st.text(max_size=40) | st.text(string.printable, max_size=40)


def paths(node: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Return where something stands in a document."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    return [path, *(found for key, value in inner for found in paths(value, (*path, key)))]


@st.composite
def damaged(draw: st.DrawFn, document: Any) -> Any:
    """Return a document with parts taken away or replaced."""
    held = {"": copy.deepcopy(document)}
    for _ in range(draw(st.integers(1, 3))):
        *above, last = ("", *draw(st.sampled_from(paths(held[""]))))
        node: Any = held
        for key in above:
            node = node[key]
        if last != "" and draw(st.booleans()):
            del node[last]
        else:
            node[last] = draw(VALUES)
    return held[""]


def stored(name: str) -> Any:
    return json.loads((DATA / name).read_text())


# ---- what is read ---------------------------------------------------------------------------------------------------

AT = "2026-11-20T05:15:00Z"
GROUP = {"autoscaling_group": "terradask-default-etl-workers", "role": "worker", "max_size": 4, "zones": ["us-east-1a"]}
CLUSTER = {
    "format": 1,
    "workspace": "default",
    "cluster": "etl",
    "region": "us-east-1",
    "bucket": "b",
    "zone": "us-east-1a",
    "groups": {"workers": GROUP, "scheduler": {**GROUP, "role": "scheduler"}},
    "secret_id": "terradask/default/etl",
    "settings": {"n_workers": 2},
    "lock": {"worker_instance_types": ["m6i.xlarge"], "scheduler_instance_types": ["m6i.xlarge"]},
    "worker": {"workers_per_host": 1},
}
RUN = {
    "format": 1,
    "run_id": "r1",
    "started_at": AT,
    "owner": "me",
    "secret_version_id": "v1",
    "python": "3.12",
    "packages": {"dask": "2026.8.0"},
    "n_workers": 2,
    "environ": {"DB_PASSWORD": PLANTED},
    "dask_config": {"array": {"chunk-size": "7 MiB"}},
    "life": {"idle_timeout_seconds": 60.0},
}
SCHEDULER = {
    "format": 1,
    "run_id": "r1",
    "instance_id": "i-1",
    "boot": 1,
    "private_address": "10.0.0.1",
    "public_address": None,
    "dashboard_port": 8787,
    "python": "3.12",
    "packages": {},
    "ended": {"at": AT, "reason": "idle"},
    "started_at": AT,
}
REPORT = {
    "format": 1,
    "instance_id": "i-1",
    "role": "worker",
    "group": "workers",
    "state": "failed",
    "reason": "x",
    "at": AT,
    "run_id": "r1",
    "private_address": "10.0.0.1",
    "history": [["booting", AT], ["failed", AT]],
    "reasons": [None, "x"],
    "log_tail": ["a", "b"],
    "notes": [[AT, "workers", "given up", "why"]],
}
KEYS = {"format": 1, "run_id": "r1", **SECRET, "client": {"cert": "-----BEGIN X", "key": PLANTED}}
JOURNAL = {"format": 1, "run_id": "r1", "events": [{"at": AT, "subject": "cluster", "state": "stopped", "group": None, "reason": "x"}]}
STATE = {
    "serial": 4,
    "lineage": "l",
    "resources": [{"mode": "managed", "type": "aws_x", "name": "y", "instances": [{"attributes": {"id": "i-1", "password": PLANTED}}]}],
}
EVENT = {
    "type": "apply_start",
    "@message": "m",
    "hook": {"resource": {"addr": "a.b"}, "action": "create", "elapsed_seconds": 2},
    "diagnostic": {"severity": "error", "summary": "s", "detail": "d", "range": {"filename": "f", "start": {"line": 1}}},
}
ARCHIVE = {"url": "https://host.example/probe-1.0-py3-none-any.whl"}
UV_LOCK = {"version": 1, "package": [{"name": "probe", "version": "1.0", "sdist": ARCHIVE, "wheels": [ARCHIVE | {"hash": "sha256:00"}]}]}
PYLOCK = {
    "lock-version": "1.0",
    "created-by": "me",
    "packages": [{"name": "probe", "version": "1.0", "wheels": [ARCHIVE | {"hashes": {"sha256": "00"}}]}],
}
TOML = {
    "workspace": {"name": "default", "region": "us-east-1", "isolation": "workspace", "tags": {"team": "a"}},
    "network": {"cidr": "10.64.0.0/16", "nat": "single", "ingress": [{"cidr": "203.0.113.7/32", "ports": [8786]}], "data_buckets": ["a/b"]},
    "cluster": {"n_workers": [2, 4], "worker_memory": "16 GiB", "idle_timeout": "20 minutes", "environ": {"DB_PASSWORD": PLANTED}},
    "policy": {"waivers": [{"check": "P1", "address": "*", "reason": "because", "expires": "2026-12-01"}]},
}
PRICE = {
    "product": {"attributes": {"instanceType": "m6i.xlarge", "usagetype": "BoxUsage:m6i.xlarge"}},
    "terms": {"OnDemand": {"a": {"priceDimensions": {"b": {"unit": "Hrs", "pricePerUnit": {"USD": "0.192"}}}}}},
}
SPOT = {"InstanceType": "m6i.xlarge", "ProductDescription": "Linux/UNIX", "SpotPrice": "0.06", "Timestamp": 5, "AvailabilityZone": "a"}
SHEET = {"format": 1, "market": "spot", "as_of": AT, "usd": {"us-east-1a": {"m6i.xlarge": "0.06"}}}
STACK = {
    "terraform": {},
    "resource": {
        "aws_launch_template": {
            "worker": {
                "user_data": "I2Nsb3VkLWNvbmZpZwo=",
                "metadata_options": {"http_tokens": "required"},
                "block_device_mappings": [{"ebs": {"encrypted": "true"}}],
                "network_interfaces": [{"associate_public_ip_address": "false", "security_groups": ["${aws_security_group.worker.id}"]}],
                "tag_specifications": [{"resource_type": "instance", "tags": {"a": "b"}}],
            }
        },
        "aws_vpc_security_group_ingress_rule": {"x": {"cidr_ipv4": "0.0.0.0/0", "from_port": 1, "to_port": 2, "security_group_id": "sg"}},
        "aws_iam_role": {"worker": {"name": "w", "inline_policy": [{"policy": "{}"}], "assume_role_policy": "{}"}},
        "aws_iam_role_policy": {
            "worker": {"policy": json.dumps({"Statement": [{"Effect": "Allow", "Action": "iam:PassRole", "Resource": "*"}]})}
        },
        "aws_s3_object": {"x": {"content": json.dumps({"password": PLANTED})}},
    },
    "data": {"aws_ami": {"x": {"owners": ["amazon"], "filter": [{"name": "owner-id", "values": ["1"]}]}}},
    "output": {"x": {"value": "y", "sensitive": True}},
    "provider": {"aws": [{"region": "us-east-1"}]},
}


def small_plan() -> Any:
    """Return a recorded plan, of a few resources."""
    plan = stored("plan_change.json")
    kept = {change["address"] for change in plan["resource_changes"][:6]}
    plan["resource_changes"] = plan["resource_changes"][:6]
    root = plan["configuration"]["root_module"]
    root["resources"] = [one for one in root["resources"] if one["address"] in kept]
    return {key: plan[key] for key in ("format_version", "resource_changes", "configuration", "output_changes") if key in plan}


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
    """Something that comes from outside: what it looks like, who reads it, and how it may be refused."""

    limiter: st.SearchStrategy[Any]
    read: Callable[[Any], Any]
    refused: tuple[type[Exception], ...] = (TerradaskError,)


MAPPINGS = st.dictionaries(st.text(max_size=8), VALUES, max_size=3)
VARIABLES = st.sampled_from(
    ["WORKSPACE__NAME", "CLUSTER__N_WORKERS", "CLUSTER__ENVIRON", "NETWORK__INGRESS", "NETWORK__CIDR", "X", "CLUSTER"]
)
TAGS = st.sampled_from(["terradask:role", "terradask:cluster", "terradask:group", "instance-id", "local-ipv4", "availability-zone"])

INPUTS: dict[str, Input] = {
    "settings, as text": Input(TEXTS, lambda text: settings_in(text, Path("terradask.toml"))),
    "settings": Input(toml_of(TOML), settings_of),
    "arguments": Input(mapping_of(TOML), lambda overrides: load_settings(environ={}, overrides=overrides)),
    "variables": Input(
        st.dictionaries(VARIABLES.map("TERRADASK_{}".format), TEXTS | VALUES.map(json.dumps), max_size=3),
        lambda environ: load_settings(environ=environ),
    ),
    "Dask's configuration": Input(MAPPINGS, lambda config: load_settings(environ={}, dask_config=config)),
    "backend options": Input(MAPPINGS | VALUES, read_backend_options),
    "a plan, to its policy": Input(damaged(small_plan()), policy_of),
    "a stack, to its policy": Input(damaged(STACK), policy_of),
    "a plan, to be shown": Input(damaged(small_plan()), lambda plan: summarise(plan, stack="x", plan_hash="0")),
    "a saved plan": Input(TEXTS, in_file(PlanArchive.read)),
    "Terraform's events": Input(texts_of(EVENT), parse_event, ()),
    "a state, as text": Input(texts_of(STATE).map(str.encode), lambda content: state_of(content, "s3://b/k")),
    "a state": Input(damaged(STATE), StateInfo.from_json),
    "a lock of a state": Input(texts_of({"ID": "1", "Who": "me", "Created": AT}).map(str.encode), LockInfo.from_json, ()),
    "a lock in words": Input(TEXTS, LockInfo.from_text, ()),
    "the locked answers": Input(texts_of({"format": 1, "network": {"account": "1"}}), in_file(read_lock)),
    "the network's word": Input(texts_of({"format": BASELINE_FORMAT, "workspace": "default"}), parse_baseline),
    "an object": Input(texts_of(RUN), lambda text: parse_object(text, "run.json")),
    "a host's object": Input(texts_of(REPORT), lambda text: parse_object(text, "hosts/i-1.json"), ()),
    "a descriptor": Input(mapping_of(CLUSTER), descriptor),
    "a run": Input(mapping_of(RUN), read_run),
    "an address": Input(mapping_of(SCHEDULER), read_address),
    "a host's report": Input(mapping_of(REPORT), read_report),
    "hosts' reports": Input(st.lists(mapping_of(REPORT), max_size=2), read_host_reports, ()),
    "keys": Input(damaged(KEYS), KeySet.from_document),
    "a journal": Input(damaged(JOURNAL), events_in, ()),
    "instance types": Input(st.lists(damaged(stored("instance_types.json")[0]), max_size=3), read_types, ()),
    "kept instance types": Input(VALUES, lambda document: read_catalog(document, "us-east-1"), ()),
    "a price": Input(st.lists(texts_of(PRICE), max_size=2), lambda entries: read_price(query_for_instances("us-east-1"), entries), ()),
    "prices": Input(st.lists(texts_of(PRICE), max_size=2), lambda entries: read_instance_prices("us-east-1", entries), ()),
    "spot prices": Input(st.lists(damaged(SPOT), max_size=2), lambda entries: read_spot_price("m6i.xlarge", entries), ()),
    "kept prices": Input(damaged(SHEET), lambda document: read_sheet(document, "spot", "x"), ()),
    "why a launch failed": Input(TEXTS, read_problem, ()),
    "cores": Input(VALUES, lambda value: parse_cores("n_cores", value)),
    "memory": Input(VALUES, lambda value: parse_memory("memory", value)),
    "a duration": Input(VALUES, lambda value: parse_duration("timeout", value)),
    "whom to trust": Input(TEXTS | TEXTS.map("github:a/{}".format), parse_trust),
    "host.json": Input(
        texts_of(HOST_JSON), in_file(lambda path: load_config({"TERRADASK_HOST_ROOT": str(path.parents[2])})), (HostError,)
    ),
    "what a host reads": Input(texts_of(RUN) | st.binary(max_size=20), lambda text: parse_document(text, "run.json"), (HostError,)),
    "time constants": Input(
        texts_of({"join_seconds": 5}), lambda text: Timing.from_environ({"TERRADASK_HOST_TIMING": text}), (HostError,)
    ),
    "versions": Input(TEXTS, check_lock, (HostError,)),
    "a lock file": Input(TEXTS | toml_of(UV_LOCK).map(tomlkit.dumps) | toml_of(PYLOCK).map(tomlkit.dumps), in_file(read_lock_file)),
    "keys on a host": Input(mapping_of(KEYS), keys_of, (HostError,)),
    "metadata and tags": Input(
        st.dictionaries(TAGS, TEXTS | st.just("worker")) | st.just({"instance-action": "x"}), metadata, (HostError,)
    ),
    "user data": Input(
        (texts_of({"write_files": [{"path": "/a", "content": "x", "encoding": "b64", "permissions": "0644"}]})).map(
            lambda text: f"#cloud-config\n{text}".encode(errors="surrogatepass")
        )
        | st.binary(max_size=20),
        parse_cloud_config,
        (BootFailed,),
    ),
}  # fmt: skip


def refusal(what: Input, given_input: Any) -> str:
    """Return how an input was refused; nothing where it was read."""
    try:
        what.read(given_input)
    except what.refused as error:
        return str(error)
    return ""


def read_all(name: str, examples: int, *, drawn: bool) -> None:
    what = INPUTS[name]

    @settings(max_examples=examples, derandomize=not drawn, database=None, deadline=None, suppress_health_check=list(HealthCheck))
    @given(what.limiter)
    def read(given_input: Any) -> None:
        assert PLANTED not in refusal(what, given_input)

    read()


@pytest.mark.parametrize("name", INPUTS)
def test_outside_input_is_read_or_refused(name: str) -> None:
    read_all(name, IN_SUITE, drawn=False)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", INPUTS)
def test_outside_input_is_read_or_refused_at_length(name: str) -> None:
    read_all(name, IN_SOAK, drawn=True)


def test_a_hosts_report_can_neither_rewrite_a_terminal_nor_stop_a_client(caplog: pytest.LogCaptureFixture) -> None:
    escape = "\x1b]0;x\x07\x1b[2K\x9b1A"
    hostile = {**REPORT, "reason": f"no disk{escape}", "log_tail": [f"line{escape}", "a\tb"], "notes": [[AT, "g", escape, escape]]}

    (read,) = read_host_reports([{"format": 1}, {**REPORT, "history": 3}, hostile, {**REPORT, "at": "yesterday"}])

    shown = "\n".join([read.describe(), *read.describe_with_log(), *(text for note in read.notes for text in note)])
    assert "no disk" in shown
    assert "a\tb" in shown
    assert not {letter for letter in shown if not letter.isprintable()} - {"\n", "\t"}
    assert len(caplog.records) == 3
