"""docs/security.md lists every document with its writers, as the generated policies have them, and
with the check that comes before its effect.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from terradask_modules.caller_policies import CALLERS, CallerScope, caller_statements
from terradask_modules.policies import PolicyScope, scheduler_policy, worker_policy
from terradask_modules.task_rights import TaskPolicy
from terradask_modules.where import Where
from terradask_simulator.iam import Policies, Policy, Request, evaluate

from .named_tests import ROOT, missing_of, named_in

PAGE = (ROOT / "docs/security.md").read_text()
SECTION = PAGE.partition("\n## Documents and messages\n")[2].partition("\n## ")[0]
ROWS = {
    cells[0]: cells[1:]
    for line in SECTION.splitlines()
    if line.startswith("| `")
    for cells in [[cell.strip() for cell in line.strip("|").split(" | ")]]
}

ACCOUNT, REGION = "123456789012", "us-east-1"
BUCKET = f"arn:aws:s3:::terradask-default-{ACCOUNT}-{REGION}"
STATE = "states/workspaces/default/network.tfstate"
SECRET = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:terradask/default/etl-AbCdEf"
GROUP = (
    f"arn:aws:autoscaling:{REGION}:{ACCOUNT}:"
    "autoScalingGroup:0f-1:autoScalingGroupName/terradask-default-etl-workers"
)
STREAM = f"arn:aws:logs:{REGION}:{ACCOUNT}:log-group:/terradask/default:log-stream:etl/i-1"
IN_PLACE = {
    "aws:RequestedRegion": (REGION,),
    "aws:ResourceAccount": (ACCOUNT,),
    "aws:ResourceTag/terradask:workspace": ("default",),
    "aws:ResourceTag/terradask:cluster": ("etl",),
}

#: First words of a row -> the action that writes it, on which resource, with which more conditions.
WRITES: dict[str, tuple[str, str, dict[str, tuple[str, ...]]]] = {
    **{
        document: ("s3:PutObject", f"{BUCKET}/{key}", {"s3:if-none-match": ("*",)})
        for document, key in {
            "`host/<sha256>/<wheel>`": "host/0a/terradask_host.whl",
            "`host/<sha256>/<archive>`": "host/0a/uv-1.0-py3-none-any.whl",
            "`host/scripts/<sha256>`": "host/scripts/0a",
            "`host/images/<sha256>.json`": "host/images/0a.json",
            "`host/limits.json`": "host/limits.json",
            "`workspace.json`": "workspace.json",
            "`applied/network.json`": "applied/network.json",
            "`applied/clusters/<cluster>.json`": "applied/clusters/etl.json",
            "`unlocks/<time>.json`": "unlocks/1.json",
            "`cluster.json`": "clusters/etl/cluster.json",
            "`run.json`": "clusters/etl/run.json",
            "`software.lock`": "clusters/etl/software.lock",
            "`wheels/<sha256>/<file>`": "clusters/etl/wheels/0a/acme-1.0-py3-none-any.whl",
            "`software/<name>.json`": "software/team.json",
            "`software/<name>.built.json`": "software/team.built.json",
            "`software/wheels/<sha256>/<file>`": "software/wheels/0a/acme-1.0-py3-none-any.whl",
            "`environment.json`": "clusters/etl/environment.json",
            "`environments/<cluster>/<archive>`": "environments/etl/run-i-1-0.tar",
            "`reports/<cluster>/<run id>/<boot>.html.gz`": "reports/etl/1/1.html.gz",
            "`reports/<cluster>/<run id>/<boot>.usage.json.gz`": "reports/etl/1/1.usage.json.gz",
            "`reports/<cluster>.jobs/<job>/job.json.gz`": "reports/etl.jobs/1/job.json.gz",
            "`reports/<cluster>/<run id>/events.json`": "reports/etl/1/events.json",
            "`scheduler.json`": "clusters/etl/scheduler.json",
            "`closing.json`": "clusters/etl/closing.json",
            "`hosts/<instance id>.json`": "clusters/etl/hosts/i-1.json",
            "`history/<time>-<6 hex>.json`": "history/20261124T080000Z-1f3a9c.json",
            "`accounts/starting.json`": "accounts/starting.json",
            "`accounts/<run id>/<cluster>.json`": "accounts/20261124T080000Z-1f3a9c/etl.json",
            "`events/<run id>.json`": "clusters/etl/events/1.json",
            "`terraform.tfstate`": "clusters/etl/terraform.tfstate",
            "`terraform.tfstate.tflock`": "clusters/etl/terraform.tfstate.tflock",
        }.items()
    },
    "`network.tfstate`": ("s3:PutObject", f"arn:aws:s3:::{STATE}", {}),
    "`network.tfstate.tflock`": ("s3:PutObject", f"arn:aws:s3:::{STATE}.tflock", {}),
    "`PutSecretValue`": ("secretsmanager:PutSecretValue", SECRET, {}),
    "`SetDesiredCapacity`": ("autoscaling:SetDesiredCapacity", GROUP, {}),
    "`CreateOrUpdateTags`": (
        "autoscaling:CreateOrUpdateTags",
        GROUP,
        {"aws:TagKeys": ("terradask:run:id",)},
    ),
    "`PutLogEvents`": ("logs:PutLogEvents", STREAM, {}),
}
#: As the table says them -> the holders of the generated policies.
WORDS = {
    **{f"`{caller}`": caller for caller in CALLERS},
    "scheduler": "scheduler",
    "workers": "worker",
    "*other schedulers*": "scheduler of another cluster",
    "*other workers*": "worker of another cluster",
}


def _shared() -> PolicyScope:
    return PolicyScope(
        where=Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default")
    )


def _holders(*, isolated: bool) -> Iterator[tuple[str, dict[str, Any]]]:
    shared = _shared()
    scope = CallerScope(hosts=shared, session_manager=True, isolated=isolated, network_state=STATE)
    for caller in CALLERS:
        statements = caller_statements(scope, caller)
        yield caller, {"Version": "2012-10-17", "Statement": statements}
    for role, policy in (("scheduler", scheduler_policy), ("worker", worker_policy)):
        for cluster, name in (("etl", role), ("ml", f"{role} of another cluster")):
            own = replace(
                shared, where=shared.where.of_cluster(cluster), groups=("scheduler", "workers")
            )
            yield name, policy(own if isolated else shared)


def writers(document: str, *, isolated: bool) -> set[str]:
    action, resource, more = WRITES[document]
    request = Request(action, resource, {**IN_PLACE, **more})
    return {
        name
        for name, policy in _holders(isolated=isolated)
        if evaluate(request, Policies((Policy.parse(policy),))).allowed
    }


def _named(document: str) -> str:
    found = re.match(r"`[^`]+`", document)
    assert found
    return found[0]


def test_every_document_has_a_row() -> None:
    assert {_named(row) for row in ROWS} == set(WRITES)


@pytest.mark.parametrize("row", ROWS)
def test_its_writers_are_those_of_the_policies(row: str) -> None:
    told = {WORDS[word] for word in ROWS[row][0].split(", ")}
    assert writers(_named(row), isolated=False) == told
    walled = {name for name in told if not name.endswith("another cluster")}
    assert writers(_named(row), isolated=True) == walled


@pytest.mark.parametrize("row", ROWS)
def test_it_has_a_check_that_tests_hold(row: str) -> None:
    _, read_by, check, held = ROWS[row]
    assert read_by
    assert check
    assert named_in(held)
    assert missing_of(held) == []


#: Attached to tasks' roles, it became all that a policy can be.
EVERYTHING = Policy.parse(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
    }
)


@pytest.mark.parametrize("row", ROWS)
def test_no_policy_of_tasks_adds_a_writer(row: str) -> None:
    document = _named(row)
    action, resource, more = WRITES[document]
    if STATE in resource:
        # Its bucket isn't terradask's own here, which roles couldn't name.
        return
    hosts = PolicyScope(where=_shared().where, task_policies=[TaskPolicy(arn="arn:queries")])
    request = Request(action, resource, {**IN_PLACE, **more})
    may = {
        role
        for role, policy in (("scheduler", scheduler_policy), ("worker", worker_policy))
        if evaluate(request, Policies((Policy.parse(policy(hosts)), EVERYTHING))).allowed
    }

    assert may == writers(document, isolated=False) & {"scheduler", "worker"}


def test_a_new_writer_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    wider = {"Effect": "Allow", "Action": "s3:PutObject", "Resource": f"{BUCKET}/*"}

    def widened(scope: CallerScope, caller: str) -> list[dict[str, Any]]:
        return [wider] if caller == "ci" else []

    monkeypatch.setitem(globals(), "caller_statements", widened)
    assert "ci" in writers("`run.json`", isolated=False)
