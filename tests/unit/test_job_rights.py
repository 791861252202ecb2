"""What the roles of hosts may do with the records of jobs, as IAM would decide."""

from __future__ import annotations

import pytest

from terradask_simulator.iam import Policy, Request, evaluate

from . import test_host_rights as rights

JOB = "20261124T153000Z-1f3a9c4"

ACTS = {
    "records what became of its cluster's jobs": rights.within(
        "s3:PutObject", f"{rights.BUCKET}/reports/etl.jobs/{JOB}/job.json.gz", rights.SCHEDULER
    ),
    "keeps what a task of its cluster's jobs wrote": rights.within(
        "s3:PutObject", f"{rights.BUCKET}/reports/etl.jobs/{JOB}/0.output.json.gz", rights.SCHEDULER
    ),
    "records what became of another cluster's jobs": rights.sisters(
        "s3:PutObject", f"{rights.BUCKET}/reports/ml.jobs/{JOB}/job.json.gz", rights.SCHEDULER
    ),
    "reads what became of its cluster's jobs": rights.never(
        "s3:GetObject", f"{rights.BUCKET}/reports/etl.jobs/{JOB}/job.json.gz"
    ),
    "puts another object beside its cluster's jobs": rights.never(
        "s3:PutObject", f"{rights.BUCKET}/reports/etl.jobs/{JOB}/events.json"
    ),
}


@pytest.mark.parametrize("isolation", rights.SCOPES)
@pytest.mark.parametrize("act", ACTS)
def test_a_host(act: str, isolation: str) -> None:
    one = ACTS[act]
    request = Request(one.action, one.resource)
    may = {
        role
        for role, policy in rights.ROLES.items()
        if evaluate(request, [Policy.parse(policy(rights.SCOPES[isolation]))]).allowed
    }
    assert may == (one.shared if isolation == "shared" else one.isolated)
