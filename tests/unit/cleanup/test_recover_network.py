"""What an interruption leaves of a network: found by tags and names, and removed; on moto."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from terradask._aws.session import Aws
from terradask._cleanup.adopt import imports
from terradask._cleanup.delete import delete_resources
from terradask._cleanup.recover import NetworkRecovery
from terradask._cleanup.resources import (
    INGRESS_RULE,
    Resource,
)
from terradask._cleanup.search import find_network, find_security_groups
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.kind import Listed
from terradask_modules.names import boundary_name, clusters_role_path
from terradask_simulator.aws.fidelity import budgets as budgets_as_aws_has_them

from .planted import DOCUMENT, PREFIX, Planted, as_state, ids, own, place, tagged, templates

BUDGET = "aws_budgets_budget"


def test_the_boundary_is_the_networks(aws: Aws):
    iam = aws.client("iam")
    name, path = boundary_name("default", PREFIX), clusters_role_path("default")
    configured = {"aws_iam_policy": {"boundary": {"name": name, "path": path}}}

    def network(configured: Mapping[str, Any]) -> list[Resource]:
        found = find_network(aws, place(), configured)
        return [resource for resource in found if resource.type == "aws_iam_policy"]

    assert network(configured) == []
    arn = iam.create_policy(
        PolicyName=name, Path=path, PolicyDocument=DOCUMENT, Tags=tagged("default")
    )["Policy"]["Arn"]
    assert network({}) == []
    assert [policy.id for policy in network(configured)] == [arn]
    iam.create_policy_version(PolicyArn=arn, PolicyDocument=DOCUMENT, SetAsDefault=True)
    iam.create_role(RoleName="x", AssumeRolePolicyDocument=DOCUMENT, PermissionsBoundary=arn)
    role = Resource("aws_iam_role", "x")
    calls: list[str] = []
    events = iam.meta.events
    events.register(
        "before-call.iam.*", lambda model, **_: calls.append(model.name), unique_id="calls"
    )
    delete_resources(aws, [*network(configured), role], progress=lambda _: None)
    events.unregister("before-call.iam.*", unique_id="calls")
    deleted = [call for call in calls if call.startswith("Delete")]
    assert deleted == ["DeleteRole", "DeletePolicyVersion", "DeletePolicy"]
    assert network(configured) == []


def test_a_rule_between_groups_that_the_state_knows_is_removed_before_them(aws: Aws):
    planted = Planted(aws, "default", None)
    Planted(aws, "default", "etl")
    unknown_rule = planted.admit("scheduler", "scheduler")
    groups = find_security_groups(aws, place())
    state = as_state(
        [resource for resource in groups if resource.id != unknown_rule and resource.tags]
    )
    state |= {
        f"aws_launch_template.{t['LaunchTemplateName']}": t["LaunchTemplateId"]
        for t in templates(aws)
    }
    others = own(aws, "etl")
    recovery = NetworkRecovery(aws, place(), lambda: state, dict, {}, lambda _: None)
    assert recovery.remove_unknown()
    assert ids(find_security_groups(aws, place())) == ids(groups) - {(INGRESS_RULE, unknown_rule)}
    assert not recovery.remove_unknown()
    assert own(aws, "etl") == others


def test_what_clusters_have_of_their_own_is_not_the_networks(aws: Aws):
    Planted(aws, "default", "etl")
    groups = Planted(aws, "default", None).groups
    found = find_network(aws, place(), {})
    assert [resource.type for resource in found] == ["aws_security_group"] * 2 + [
        "aws_launch_template"
    ] * 2
    assert {resource.id for resource in found} >= set(groups.values())


def test_every_page_of_what_ec2_has_is_read(aws: Aws):
    assert {
        name
        for name, kind in KINDS.items()
        if isinstance(kind.find, Listed) and not aws.client("ec2").can_paginate(kind.find.call)
    } == {
        "aws_eip",
        "aws_placement_group",
    }


def test_a_budget_is_found_by_its_name_adopted_and_removed(aws: Aws) -> None:
    budgets_as_aws_has_them.install()
    budgets, name = aws.client("budgets"), "terradask-default.month"
    block = {"name": name}
    configured = {BUDGET: {"month": block}}

    def found() -> list[Resource]:
        return [one for one in find_network(aws, place(), configured) if one.type == BUDGET]

    def made(name: str, workspace: str) -> None:
        about = {"BudgetType": "COST", "TimeUnit": "MONTHLY"}
        limit = {"Amount": "5", "Unit": "USD"}
        budgets.create_budget(
            AccountId=aws.account_id,
            Budget={"BudgetName": name, "BudgetLimit": limit, **about},
            ResourceTags=tagged(workspace),
        )

    def names() -> list[str]:
        listed = budgets.describe_budgets(AccountId=aws.account_id)["Budgets"]
        return [one["BudgetName"] for one in listed]

    assert found() == []
    made(name, "default")
    made("another", "default")
    # As Terraform's state has it.
    assert [one.id for one in found()] == [f"{aws.account_id}:{name}"]
    assert imports({"resource": configured}, {}, found()) == {
        f"{BUDGET}.month": f"{aws.account_id}:{name}"
    }
    recovery = NetworkRecovery(aws, place(), dict, dict, configured, lambda _: None)
    assert recovery.remove_unknown()
    assert names() == ["another"]
    assert not recovery.remove_unknown()
    delete_resources(aws, [Resource(BUDGET, f"{aws.account_id}:{name}")], progress=lambda _: None)
    made(name, "team")
    assert found() == []


def test_the_topic_for_messages_of_an_end_is_found_by_its_name_and_removed(aws: Aws) -> None:
    sns, name = aws.client("sns"), "terradask-default-ends"
    configured = {"aws_sns_topic": {"ends": {"name": name}}}

    def topics() -> list[str]:
        found = find_network(aws, place(), configured)
        return [resource.id for resource in found if resource.type == "aws_sns_topic"]

    assert topics() == []
    arn = sns.create_topic(Name=name, Tags=tagged("default"))["TopicArn"]
    sns.create_topic(Name="another")
    assert topics() == [arn]
    delete_resources(aws, [Resource("aws_sns_topic", arn)], progress=lambda _: None)
    assert topics() == []
