"""The limit on what a stack may cost."""

from __future__ import annotations

from decimal import Decimal

from terradask._catalog.prices.prices import CostEstimate, CostItem
from terradask.policy import cost_findings
from terradask_stacks.settings import PolicySettings

NAT = CostItem("aws_nat_gateway.a", "NAT gateway", Decimal("0.50"))
WORKERS = CostItem(
    "aws_autoscaling_group.workers", "m6i.xlarge", Decimal("0.25"), desired=0, maximum=20
)
UNPRICED = CostItem("aws_vpc_endpoint.logs", "interface endpoint", None)


def estimate(*items: CostItem, problem: str | None = None) -> CostEstimate:
    return CostEstimate("us-east-1", "AWS Price List API", "2026-11-20", items, problem)


def limit(usd: float | None) -> PolicySettings:
    return PolicySettings(max_hourly_cost_usd=usd)


def test_without_a_limit_nothing_is_said() -> None:
    assert cost_findings(estimate(WORKERS, UNPRICED, problem="no credentials"), limit(None)) == ()


def test_the_limit_is_on_the_maximum_size_and_may_be_reached() -> None:
    assert cost_findings(estimate(NAT, WORKERS), limit(5.5)) == ()

    (finding,) = cost_findings(estimate(NAT, WORKERS), limit(5.49))
    assert finding.blocking
    assert finding.check == "cost"
    assert finding.message == (
        "the stack can cost $5.50 an hour at its maximum size, $5.00 of it for "
        "aws_autoscaling_group.workers; "
        "policy.max_hourly_cost_usd is $5.49"
    )


def test_a_missing_price_is_a_warning_that_names_what_has_none() -> None:
    (finding,) = cost_findings(estimate(NAT, UNPRICED), limit(1))

    assert finding.severity == "warning"
    assert "no price for aws_vpc_endpoint.logs (interface endpoint)" in finding.message


def test_unknown_prices_are_a_warning_with_the_reason() -> None:
    (finding,) = cost_findings(estimate(UNPRICED, problem="the API doesn't answer"), limit(1))

    assert finding.severity == "warning"
    assert "prices are unknown (the API doesn't answer)" in finding.message


def test_what_is_too_much_already_is_no_question_of_missing_prices() -> None:
    assert [
        finding.severity for finding in cost_findings(estimate(WORKERS, UNPRICED), limit(1))
    ] == ["error"]


def test_small_amounts_are_not_rounded_away() -> None:
    (finding,) = cost_findings(estimate(CostItem("a.b", "x", Decimal("0.0042"))), limit(0.001))

    assert "$0.0042" in finding.message
    assert "$0.001" in finding.message
