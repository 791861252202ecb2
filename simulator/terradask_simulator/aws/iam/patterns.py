"""Patterns of policies: wildcards, policy variables, actions, ARNs.

AWS (documented): IAM's policies have wildcards and variables.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_variables.html
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache

__all__ = ["Context", "like", "like_arn", "like_resource", "literal"]

#: Condition keys in lower case, each with its values.
Context = Mapping[str, tuple[str, ...]]

_VARIABLE = re.compile(r"\$\{([^}]*)\}")
_DEFAULT = re.compile(r"^\s*([^,\s]+)\s*(?:,\s*'([^']*)'\s*)?$")
_WITH_VARIABLES = "2012-10-17"
_ARN_PARTS = 6
_TYPE = re.compile("([^/:]*)[/:]")


def like(
    pattern: str,
    text: str,
    context: Context,
    version: str = _WITH_VARIABLES,
    *,
    ignore_case: bool = False,
) -> bool:
    """Return whether a text matches a pattern with ``*``, ``?`` and policy variables.

    A variable without a value and without a default matches nothing; older versions of the policy
    language have no variables.
    """
    if version < _WITH_VARIABLES or "${" not in pattern:
        return _compiled(_wild(pattern), ignore_case).fullmatch(text) is not None
    filled = _filled(pattern, context, _wild, re.escape)
    return filled is not None and _compiled(filled, ignore_case).fullmatch(text) is not None


def literal(value: str, context: Context, version: str = _WITH_VARIABLES) -> str | None:
    """Return a value with its variables replaced, for operators without wildcards; None if one has
    no value.
    """
    return value if version < _WITH_VARIABLES else _filled(value, context, str, str)


def like_arn(pattern: str, arn: str, context: Context, version: str = _WITH_VARIABLES) -> bool:
    """Return whether an ARN matches a pattern: ``*``, or each of the six parts separately.

    AWS (documented): In IAM's ARN conditions a wildcard matches colons only in the last part.
    https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_condition_operators.html#Conditions_ARN
    """
    if pattern == "*":
        return True
    patterns = _split(pattern)
    parts = arn.split(":", _ARN_PARTS - 1)
    if len(patterns) != _ARN_PARTS or len(parts) != _ARN_PARTS:
        return False
    return all(like(one, part, context, version) for one, part in zip(patterns, parts, strict=True))


def like_resource(pattern: str, arn: str, context: Context, version: str = _WITH_VARIABLES) -> bool:
    """Return whether an ARN matches a pattern of ``Resource`` or ``NotResource``.

    AWS (documented): In IAM's Resource, unlike in conditions, a * at the end of a part matches
    colons. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_resource.html
    """
    parts = _split(pattern)
    if _has_wild_type(parts):
        return False
    if like_arn(pattern, arn, context, version):
        return True
    first = next((number for number, part in enumerate(parts) if part.endswith("*")), None)
    if first is None:
        return False
    given = arn.split(":", first)
    before = zip(parts[:first], given[:first], strict=False)
    return (
        len(given) > first
        and all(like(one, part, context, version) for one, part in before)
        and like(":".join(parts[first:]), given[first], context, version)
    )


def _has_wild_type(parts: list[str]) -> bool:
    """Return whether the type of a resource, such as ``secret:``, has a wildcard in it. Buckets and
    objects have none.

    AWS (documented): IAM's ARNs take no wildcard within a resource's type; EC2's own examples have
    a star in its place. https://docs.aws.amazon.com/IAM/latest/UserGuide/reference-arns.html,
    https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/supported-iam-actions-tagging.html
    """
    if len(parts) < _ARN_PARTS or (parts[2] == "s3" and not parts[3] and not parts[4]):
        return False
    named = _TYPE.match(parts[5])
    return named is not None and named[1] != "*" and any(sign in named[1] for sign in "*?$")


def _split(pattern: str) -> list[str]:
    # Colons in a variable's name don't separate parts.
    parts, depth = [""], 0
    for letter in pattern:
        depth += (letter == "{") - (letter == "}" and depth > 0)
        if letter == ":" and depth == 0 and len(parts) < _ARN_PARTS:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _wild(text: str) -> str:
    return "".join(
        ".*" if letter == "*" else "." if letter == "?" else re.escape(letter) for letter in text
    )


def _filled(
    pattern: str, context: Context, text: Callable[[str], str], value: Callable[[str], str]
) -> str | None:
    """Replace the variables; ``text`` converts the text between them, ``value`` their values, which
    are never wildcards.
    """
    pieces, end = [], 0
    for found in _VARIABLE.finditer(pattern):
        held = _value(found[1], context)
        if held is None:
            return None
        pieces += [text(pattern[end : found.start()]), value(held)]
        end = found.end()
    return "".join([*pieces, text(pattern[end:])])


def _value(inner: str, context: Context) -> str | None:
    if inner in ("*", "?", "$"):
        return inner
    parsed = _DEFAULT.match(inner)
    if parsed is None:
        return None
    values = context.get(parsed[1].lower(), ())
    # A pattern can't use a key with several values.
    return values[0] if len(values) == 1 else parsed[2]


@lru_cache(maxsize=4096)
def _compiled(expression: str, ignore_case: bool) -> re.Pattern[str]:
    return re.compile(expression, re.DOTALL | (re.IGNORECASE if ignore_case else 0))
