"""Refuse an incomplete plan: a check finds nothing in a part that is missing.

The parts are those of https://developer.hashicorp.com/terraform/internals/json-format. Plans are
sometimes shortened, for size or to remove secrets.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from terradask._common.naming import some
from terradask._common.plan_modules import value_resources
from terradask_modules.errors import InvalidInput, TerradaskError

#: Formats of the same major version differ in additions.
_KNOWN_FORMATS = ("0", "1")
#: The keys of ``count`` and ``for_each`` in addresses.
INDEX = re.compile(r"\[[^\]]*\]")
_NAMED = 3


def check_complete(document: Mapping[str, Any], configured: Collection[str]) -> None:
    """Refuse a plan's JSON without all parts that the checks read. `configured` are the addresses
    of its configuration. Raises `InvalidInput`.
    """
    given = _missing(document, configured)
    if given is not None:
        raise InvalidInput(
            "policy can't be checked: the plan is incomplete",
            given=given,
            allowed="all that terraform show -json PLAN prints, of format 1, of a plan without "
            "errors",
            advice="pass it unchanged: missing parts can't be checked; if it is complete, "
            "terradask doesn't support this version of Terraform",
        )


def _missing(document: Mapping[str, Any], configured: Collection[str]) -> str | None:
    """Return a phrase for the missing part; None if nothing is missing."""
    major = str(document["format_version"]).partition(".")[0]
    if major not in _KNOWN_FORMATS:
        return f"format_version {document['format_version']}"
    if document.get("errored") is True:
        return "the plan of a failed run"
    planned = document.get("planned_values") or {}
    changes = [*_managed(document)]
    stays = {
        str(entry["address"]): entry["change"]
        for entry in changes
        if entry["change"].get("after") is not None
        and list(entry["change"]["actions"]) not in (["delete"], ["forget"])
    }
    values = {
        str(entry["address"])
        for entry in value_resources(planned)
        if entry.get("mode") == "managed"
    }
    outputs = {
        name
        for name, change in (document.get("output_changes") or {}).items()
        if list(change["actions"]) != ["delete"]
    }
    marks = ("after_unknown", "after_sensitive") if major != "0" else ("after_unknown",)
    lacking = {
        "configuration": [each for each in stays if INDEX.sub("", each) not in configured],
        "planned_values": [
            *stays.keys() - values,
            *outputs - (planned.get("outputs") or {}).keys(),
        ],
        "resource_changes": [*values - {str(entry["address"]) for entry in changes}],
        **{
            mark: [address for address, change in stays.items() if mark not in change]
            for mark in marks
        },
    }
    return (
        "; ".join(
            f"nothing in {part} of {some(sorted(those), _NAMED)}"
            for part, those in lacking.items()
            if those
        )
        or None
    )


def _managed(document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    for entry in document.get("resource_changes") or []:
        # A deposed object, left over from a replacement, is only removed.
        if entry.get("mode") == "managed" and "deposed" not in entry:
            yield {**entry, "change": entry.get("change") or {}}


#: Exceptions from reading JSON with the wrong structure.
UNREADABLE = (AttributeError, LookupError, TypeError, ValueError, OverflowError, RecursionError)


def unreadable_plan(error: BaseException) -> TerradaskError:
    """Return the error to raise for one of `UNREADABLE`, without contents of the plan."""
    if isinstance(error, TerradaskError):
        return error
    return InvalidInput(
        "the plan can't be read: its JSON isn't as Terraform documents it",
        given=type(error).__name__,
        allowed="what terraform show -json PLAN prints, or a synthesised cdk.tf.json",
        advice=(
            "plan again; if the error remains, terradask doesn't support this version of Terraform"
        ),
    )
