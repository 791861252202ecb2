"""Condition operators.

AWS (documented): IAM's conditions have these operators, and ForAllValues and ForAnyValue for keys
with several values.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html,
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-single-vs-multi-valued-context-keys.html
"""

from __future__ import annotations

import datetime
import ipaddress
import operator
from collections.abc import Callable

from terradask_simulator.aws.errors import SimulatorError
from terradask_simulator.aws.iam.documents import Condition
from terradask_simulator.aws.iam.patterns import Context, like, like_arn, literal

__all__ = ["UnknownOperator", "holds"]

#: Compares a request's value with a policy's: the policy's value, the request's, the context, the
#: policy's version.
_Comparison = Callable[[str, str, Context, str], bool]

_FOR_ALL, _FOR_ANY, _IF_EXISTS = "forallvalues:", "foranyvalue:", "ifexists"


class UnknownOperator(SimulatorError):
    """A policy uses an unknown condition operator."""


def holds(condition: Condition, context: Context, version: str = "2012-10-17") -> bool:
    """Return whether one line of a condition holds.

    Notes
    -----
    For a key that the request lacks, positive operators don't hold, negated ones do; ``…IfExists``
    and ``ForAllValues`` hold, ``ForAnyValue`` doesn't.
    """
    name = condition.operator.lower()
    values = context.get(condition.key.lower(), ())
    present = condition.key.lower() in context
    if name == "null":
        return any((wanted.lower() == "true") != present for wanted in condition.values)
    quantifier = next((one for one in (_FOR_ALL, _FOR_ANY) if name.startswith(one)), "")
    name = name.removeprefix(quantifier)
    compare, negated = _operator(name.removesuffix(_IF_EXISTS), condition.operator)
    if name.endswith(_IF_EXISTS) and not present:
        return True

    def matches(value: str) -> bool:
        found = any(compare(wanted, value, context, version) for wanted in condition.values)
        return found != negated

    if quantifier == _FOR_ALL:
        return all(map(matches, values))
    if quantifier == _FOR_ANY:
        return any(map(matches, values))
    if not present:
        return negated
    return (all if negated else any)(map(matches, values))


def _operator(name: str, given: str) -> tuple[_Comparison, bool]:
    if name in _OPERATORS:
        return _OPERATORS[name], False
    positive = _NEGATED.get(name)
    if positive is None:
        raise UnknownOperator(
            "A policy uses a condition operator that there is not",
            given=given,
            allowed=", ".join([*_OPERATORS, *_NEGATED, "null"]),
            advice="correct the policy",
        )
    return _OPERATORS[positive], True


def _string(wanted: str, value: str, context: Context, version: str) -> bool:
    return literal(wanted, context, version) == value


def _string_ignoring_case(wanted: str, value: str, context: Context, version: str) -> bool:
    filled = literal(wanted, context, version)
    return filled is not None and filled.lower() == value.lower()


def _ip(wanted: str, value: str, _context: Context, _version: str) -> bool:
    try:
        return ipaddress.ip_address(value) in ipaddress.ip_network(wanted, strict=False)
    except ValueError:
        return False


def _ordered(compare: Callable[[float, float], bool], read: Callable[[str], float]) -> _Comparison:
    def run(wanted: str, value: str, _context: Context, _version: str) -> bool:
        try:
            return compare(read(value), read(wanted))
        except ValueError:
            return False

    return run


def _seconds(text: str) -> float:
    """Return a date, in ISO 8601 or as seconds since 1970, in seconds since 1970."""
    try:
        return float(text)
    except ValueError:
        moment = datetime.datetime.fromisoformat(text)
        return (moment if moment.tzinfo else moment.replace(tzinfo=datetime.UTC)).timestamp()


_ORDERS: dict[str, Callable[[float, float], bool]] = {
    "equals": operator.eq,
    "lessthan": operator.lt,
    "lessthanequals": operator.le,
    "greaterthan": operator.gt,
    "greaterthanequals": operator.ge,
}

_OPERATORS: dict[str, _Comparison] = {
    "stringequals": _string,
    "stringequalsignorecase": _string_ignoring_case,
    "stringlike": like,
    "bool": lambda wanted, value, *_: wanted.lower() == value.lower(),
    "binaryequals": lambda wanted, value, *_: wanted == value,
    "ipaddress": _ip,
    # Both operators accept wildcards.
    "arnequals": like_arn,
    "arnlike": like_arn,
    **{f"numeric{name}": _ordered(order, float) for name, order in _ORDERS.items()},
    **{f"date{name}": _ordered(order, _seconds) for name, order in _ORDERS.items()},
}

_NEGATED = {
    "stringnotequals": "stringequals",
    "stringnotequalsignorecase": "stringequalsignorecase",
    "stringnotlike": "stringlike",
    "numericnotequals": "numericequals",
    "datenotequals": "dateequals",
    "notipaddress": "ipaddress",
    "arnnotequals": "arnequals",
    "arnnotlike": "arnlike",
}
