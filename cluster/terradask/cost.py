"""What a plan costs, for programs: an estimate of a plan's JSON, and its prices."""

from terradask._pricing.calculation import estimate
from terradask._pricing.estimate import CostEstimate
from terradask._pricing.launches import read_launches
from terradask._pricing.price_list import AwsPriceList
from terradask._pricing.tables import to_text

__all__ = ["AwsPriceList", "CostEstimate", "estimate", "read_launches", "to_text"]
