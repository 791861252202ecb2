"""A cause is reported once, until all is well again."""

from __future__ import annotations

import logging

from terradask._common.once import OncePerCause


def test_a_cause_is_new_once_until_all_is_well() -> None:
    once = OncePerCause()
    assert [once.level("cut") for _ in range(3)] == [logging.WARNING, logging.DEBUG, logging.DEBUG]
    assert once.level("denied") == logging.WARNING
    assert once.level("cut") == logging.DEBUG
    once.clear()
    assert once.level("cut") == logging.WARNING


def test_several_are_new_where_one_of_them_is() -> None:
    once = OncePerCause()
    assert once.is_new("a", "b")
    assert not once.is_new("b")
    assert once.is_new("b", "c")
    assert not once.is_new("a", "b", "c")
    assert not once.is_new()
