"""The network's budgets of AWS Budgets: what they are made of, their names, and what they count.
Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from terradask_modules.kinds.kind import FREE, Access, Deletion, Named, ResourceKind
from terradask_modules.names import TAG_WORKSPACE, resource_name
from terradask_modules.where import Where


@dataclass(frozen=True)
class Notice:
    """The percentage of the amount, of actual or of forecast costs, at which AWS warns."""

    type: str
    percent: float


@dataclass(frozen=True, kw_only=True)
class Budget:
    """A budget, as a network makes it."""

    #: The workspace's own name of it.
    name: str
    #: The amount of a period, in US dollars.
    amount_usd: float
    #: AWS's word for the period, such as ``MONTHLY``.
    period: str
    #: When AWS warns.
    notices: Sequence[Notice]
    #: `emails`, `topic_arn`: Where warnings go.
    emails: Sequence[str]
    topic_arn: str | None = None
    #: Key and value of the tag that it counts; None: the workspace's.
    tag: tuple[str, str] | None = None


def budget_name(where: Where, name: str) -> str:
    """Return AWS's name of a workspace's budget, from its own. The dot keeps it apart from those of
    workspaces whose names begin alike.

    Notes
    -----
    AWS (documented, budget-names): Names of budgets are unique in an account, and have up to 100
    characters without ``:`` and a backslash.
    https://docs.aws.amazon.com/aws-cost-management/latest/APIReference/API_budgets_Budget.html
    """
    return resource_name(f"{where.workspace}.{name}")


def budget_arn(where: Where, name: str) -> str:
    """Return a budget's ARN, which has no region, from the workspace's own name of it."""
    return f"arn:{where.partition}:budgets::{where.account}:budget/{budget_name(where, name)}"


def counted_key(budget: Budget) -> str:
    """Return the key of the tag by which a budget counts costs."""
    return TAG_WORKSPACE if budget.tag is None else budget.tag[0]


def counted_tag(where: Where, budget: Budget) -> str:
    """Return the tag by which a budget counts costs, as its filter names it.

    Notes
    -----
    AWS (reported): A budget's filter names a tag as ``user:KEY$VALUE``; without ``user:`` it counts
    nothing. https://github.com/hashicorp/terraform-provider-aws/issues/40987
    """
    value = where.workspace if budget.tag is None else budget.tag[1]
    return f"user:{counted_key(budget)}${value}"


BUDGET = ResourceKind(
    "aws_budgets_budget",
    service="budgets",
    find=Named(
        "list_tags_for_resource",
        "ResourceARN",
        "ResourceTags",
        "arn:{partition}:budgets::{account}:budget/{name}",
        "{account}:{name}",
    ),
    delete=Deletion(
        "delete_budget", "BudgetName", account="AccountId", gone=("NotFoundException",)
    ),
    adopt="named",
    # AWS (documented): Budgets know two rights, to see and to modify, for all calls but those for
    # tags. https://docs.aws.amazon.com/service-authorization/latest/reference/list_budgets.html
    access=Access(
        see=("SeeBudgets", ("budgets:ListTagsForResource", "budgets:ViewBudget")),
        keep=(
            "KeepBudgets",
            ("budgets:ModifyBudget", "budgets:TagResource", "budgets:UntagResource"),
        ),
        arn=lambda where: budget_arn(where, "*"),
    ),
    setting="budgets",
    names=lambda where, budgets: {one.name: budget_name(where, one.name) for one in budgets},
    # AWS (documented): Budgets and their notifications are free; only those with actions cost.
    # https://aws.amazon.com/aws-cost-management/aws-budgets/pricing/
    price=FREE,
    loss="AWS warns no more when costs pass it",
)
