"""What a plan costs, and what runs have cost, for programs: an estimate of a plan's JSON, its
prices, and what `Workspace.costs` returns.
"""

from terradask._deployments.accounts.totals import CostRow, RunCosts
from terradask._pricing.calculation import estimate
from terradask._pricing.estimate import CostEstimate
from terradask._pricing.launches import read_launches
from terradask._pricing.price_list import AwsPriceList
from terradask._pricing.tables import to_text

__all__ = [
    "AwsPriceList",
    "CostEstimate",
    "CostRow",
    "RunCosts",
    "estimate",
    "read_launches",
    "to_text",
]
