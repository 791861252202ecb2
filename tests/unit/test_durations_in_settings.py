"""Settings of seconds: what is refused names the unit, the bounds, and the number to write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask import Cluster
from terradask._aws.group_limits import WATCHDOG_MINUTES
from terradask._clusters.lifetime import parse_duration
from terradask.errors import InvalidInput, SettingsError
from terradask_stacks.errors import Finding
from terradask_stacks.findings import findings_of, nearest, seconds_of
from terradask_stacks.settings import Settings
from terradask_stacks.settings.cluster import MOST_PATIENCE_SECONDS

from .settings_files import problems, write
from .test_number_settings import models_in

SECONDS = [
    (model, name)
    for model in dict.fromkeys(models_in(Settings))
    for name in model.model_fields
    if name.endswith("_seconds")
]


def refused(folder: Path, section: str, line: str) -> Finding:
    found: Finding
    (found,) = problems(write(folder, f"[{section}]\n{line}\n")).values()
    return found


@pytest.mark.parametrize(
    "text",
    ["30", "1.5s", "10 minutes", " 1 minute", "2h", "3 Hours", "1 day", "2 w", "500 ms", "soon"],
)
def test_a_text_is_advised_as_an_argument_takes_it(text: str) -> None:
    seconds = seconds_of(text)
    assert (seconds is None) == (text in {"500 ms", "soon"})
    if seconds is not None:
        assert parse_duration("timeout", text) == seconds


def test_settings_of_all_sections_are_looked_at() -> None:
    names = {name for _, name in SECONDS}
    assert names >= {
        *("idle_timeout_seconds", "capacity_timeout_seconds", "lock_timeout_seconds"),
        *("sweep_grace_seconds", "host_setup_timeout_seconds"),
    }


@pytest.mark.parametrize(
    ("model", "name"), SECONDS, ids=lambda one: one if isinstance(one, str) else one.__name__
)
def test_a_duration_is_told_its_seconds(model: Any, name: str) -> None:
    with pytest.raises(ValueError, match=name) as caught:
        model.model_validate({name: "1 minute"})
    error: Any = caught.value
    (found,) = findings_of(error, model=model, origins={})
    assert "number of seconds" in str(found.allowed)
    assert found.advice == "write 60"
    assert getattr(model.model_validate({name: 60}), name) == 60


@pytest.mark.parametrize(
    ("section", "line", "allowed", "advice"),
    [
        (
            "cluster",
            'capacity_timeout_seconds = "10 minutes"',
            "a number of seconds, 0 or more, 1500 or less",
            "write 600",
        ),
        ("clusters.etl", 'spot_fallback_seconds = "1.5s"', "more than 0", "write 1.5"),
        ("cluster", 'idle_timeout_seconds = "30"', "or false for never", "write 30"),
        (
            "offers.it.choose",
            'worker_timeout_seconds = { max = "1 hour" }',
            "a number of seconds",
            "write 3600",
        ),
        # What the setting doesn't take isn't advised.
        ("state", 'lock_timeout_seconds = "1.5s"', "whole number", "leave it out for the default"),
        ("state", 'lock_timeout_seconds = "2 hours"', "3600 or less", "the default, 60"),
        ("state", "lock_timeout_seconds = 9000", "a whole number of seconds", "the default, 60"),
        ("cluster", 'worker_timeout_seconds = "soon"', "more than 0", "the default, 600"),
        ("cluster", "idle_timeout_seconds = -1", "greater than 0", "leave it out"),
        ("cluster", "create_timeout_seconds = true", "a number of seconds, more than 0", "1200"),
    ],
)
def test_a_refused_value_is_told_the_unit_and_what_to_write(
    tmp_path: Path, section: str, line: str, allowed: str, advice: str
) -> None:
    found = refused(tmp_path, section, line)
    assert allowed in str(found.allowed)
    assert advice in str(found.advice)


@pytest.mark.parametrize(
    ("line", "advice"),
    [
        ('capacity_timeout = "10 minutes"', "did you mean capacity_timeout_seconds = 600?"),
        ("capacity_timeout = 600", "did you mean capacity_timeout_seconds?"),
        ('idle_timeout = "soon"', "did you mean idle_timeout_seconds?"),
        ('worker_clas = "1 minute"', "did you mean worker_class?"),
    ],
)
def test_an_argument_of_cluster_in_a_file_is_told_the_setting(
    tmp_path: Path, line: str, advice: str
) -> None:
    assert refused(tmp_path, "cluster", line).advice == advice


def test_too_long_a_wait_for_capacity_is_told_why(tmp_path: Path) -> None:
    found = refused(tmp_path, "cluster", "capacity_timeout_seconds = 9000")
    assert f"after {WATCHDOG_MINUTES} minutes, by the watchdog schedule" in found.problem
    assert found.allowed == "0 to 1500 seconds, 25 minutes"
    assert str(found.advice).startswith("write 1500 or less")
    assert MOST_PATIENCE_SECONDS < WATCHDOG_MINUTES * 60


def test_too_long_a_wait_is_refused_by_the_argument_that_was_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match=r"argument capacity_timeout: this is too long a wait"):
        Cluster("etl", capacity_timeout="2 hours")


def test_a_blank_is_no_duration() -> None:
    with pytest.raises(InvalidInput, match="timeout is not a duration"):
        parse_duration("timeout", " ")


def test_names_with_hyphens_are_near_as_they_are() -> None:
    assert nearest("a-b-c", ["a-b-c-d"]) == "a-b-c-d"
