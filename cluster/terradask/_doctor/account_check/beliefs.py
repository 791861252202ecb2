"""Assumptions about AWS without a source, and the steps of the account check that test them."""

from __future__ import annotations

#: Key of an assumption, as in ``docs/aws-facts.md`` -> the step that tests it.
TESTED_BY: dict[str, str] = {}
