"""The account's plan, as doctor sees it. No AWS is asked."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._doctor.doctor import check_account_plan
from terradask.errors import AccessDenied
from terradask_stacks.settings import Settings

from .quota_facts import Client

ELIGIBLE = {"t3.small": 2048, "m7i-flex.large": 8192}
FLEX = ["m7i-flex.large"]


class PlannedAccount:
    """An account with a plan; whatever region is asked."""

    partition = "aws"
    plan = "FREE"

    def in_region(self, region: str) -> PlannedAccount:
        assert region == "us-east-1"
        return self

    def client(self, name: str) -> Client:
        def state(**_: Any) -> dict[str, str]:
            if self.plan == "DENIED":
                raise AccessDenied("freetier:GetAccountPlanState", "no")
            return {"accountPlanType": self.plan}

        types = [
            {"InstanceType": one, "MemoryInfo": {"SizeInMiB": size}}
            for one, size in ELIGIBLE.items()
        ]
        answers = {
            "freetier": {"get_account_plan_state": state},
            "ec2": {"describe_instance_types": {"InstanceTypes": types}},
        }
        return Client(answers[name])


@pytest.mark.parametrize(
    ("plan", "cluster", "ok", "told"),
    [
        ("PAID", {}, True, "not the Free plan"),
        ("DENIED", {}, True, "not visible to this caller"),
        ("FREE", {}, False, "m7i-flex.large, t3.small"),
        ("FREE", {"worker_vm_types": FLEX}, False, "scheduler_vm_types"),
        ("FREE", {"worker_vm_types": FLEX, "scheduler_vm_types": FLEX}, True, "of each group"),
    ],
)
def test_the_free_plan_lacks_the_types_of_most_clusters(
    monkeypatch: pytest.MonkeyPatch, plan: str, cluster: dict[str, Any], ok: bool, told: str
) -> None:
    monkeypatch.setattr(PlannedAccount, "plan", plan)
    settings = Settings.model_validate({"cluster": cluster})
    found = check_account_plan(PlannedAccount(), settings)  # type: ignore[arg-type]
    assert found.ok is ok
    assert told in f"{found.found} {found.fix}"


def test_other_partitions_have_no_free_plan() -> None:
    china = PlannedAccount()
    china.partition = "aws-cn"
    found = check_account_plan(china, Settings())  # type: ignore[arg-type]
    assert (found.ok, found.found) == (True, "aws-cn has no Free plan")
