"""Lines of logs: their levels, how they are shown, and what is asked of them."""

from __future__ import annotations

import dataclasses
import datetime
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from terradask._dask.display import dask_logs
from terradask._observe.logs.lines import (
    ClusterLogs,
    Level,
    LineLevels,
    LogLine,
    SelectedLines,
    is_of_tasks,
    own_level,
)
from terradask._observe.logs.query import (
    LogQuery,
    choose_streams,
    from_milliseconds,
    milliseconds,
    parse_moment,
    run_start,
)
from terradask.cli._logs import format_line
from terradask.errors import InvalidInput
from terradask_host.log_streams import LogStream

NOW = datetime.datetime(2026, 11, 24, 8, 0, tzinfo=datetime.UTC)
RUN = "20261124T080000Z-1f3a9c"
HOST = "i-0123456789abcdef0"


def line(text: str, *, group: str = "workers", run: str | None = RUN) -> LogLine:
    return LogLine(NOW, HOST, group, run, None, text)


@pytest.mark.parametrize(
    ("text", "level"),
    [
        ("2026-11-24 08:00:00,123 - distributed.worker - WARNING - x", "warning"),
        ("2026-11-24 08:00:00,123 - distributed.nanny - INFO - ERROR", "info"),
        ("2026-11-24 08:00:00 ERROR x", "error"),
        ("2026-11-24T08:00:00.1Z [my.app] CRITICAL x", "critical"),
        ("WARNING:root:x", "warning"),
        ("[ERROR] - x", "error"),
        ("FATAL: x", "critical"),
        ("DEBUG | x", "debug"),
        ("terradask-host: version 0.1.0", "info"),
        ("terradask-host: ERROR: it failed", "error"),
        ("terradask-boot: ERROR: boot.sh failed at line 7: x", "error"),
        ("cloud-init: WARNING: x", "warning"),
        ("an ERROR in prose", None),
        ("ERRORS: 7", None),
        ("", None),
    ],
)
def test_levels_are_those_of_dasks_and_pythons_formats(text: str, level: str | None) -> None:
    assert own_level(text) == level


def test_what_goes_on_with_a_message_has_its_level() -> None:
    levels = LineLevels()
    told = [
        ("2026-11-24 08:00:00,123 - distributed.worker - ERROR - Compute Failed", "error"),
        ("Traceback (most recent call last):", "error"),
        ('  File "x.py", line 1, in f', "error"),
        ("    1/0", "error"),
        ("ZeroDivisionError: division by zero", "error"),
        ("printed by a task", None),
        ("  indented by a task", None),
        ("2026-11-24 08:00:01,123 - distributed.core - WARNING - slow", "warning"),
        ("ValueError: hot", "warning"),
        ("printed", None),
        ("Traceback (most recent call last):", "error"),
        ('  File "x.py", line 1', "error"),
        ("my.OwnError", "error"),
        ("During handling of the above exception, another exception occurred:", "error"),
        ("Traceback (most recent call last):", "error"),
        ("  File", "error"),
        ("KeyError: 1", "error"),
        ("2026-11-24 08:00:02,123 - distributed.worker - ERROR - Compute Failed", "error"),
        ("Key:       bad-4e09cc05", "error"),
        ("Task:  <Task 'bad' bad()>", "error"),
        ("Exception: \"ZeroDivisionError('division by zero')\"", "error"),
        ("printed", None),
        ("Key: printed", None),
        ("terradask-host: left", "info"),
    ]
    assert [levels.level_of("a", text) for text, _ in told] == [level for _, level in told]


def test_hosts_messages_dont_mix() -> None:
    levels = LineLevels()
    assert levels.level_of("a", "ERROR: x") == "error"
    assert levels.level_of("b", "  y") is None
    assert levels.level_of("a", "  z") == "error"


@given(st.text())
def test_any_text_has_a_level_or_none(text: str) -> None:
    levels = LineLevels()
    levels.level_of("a", "ERROR: x")
    levels.level_of("a", text)


@given(st.text(alphabet=st.characters()))
def test_no_line_has_a_control_character(text: str) -> None:
    shown = f"{line(text)}{format_line(line(text))}"
    assert all(letter.isprintable() for letter in shown)


@given(st.text())
def test_json_keeps_the_text_and_is_ascii(text: str) -> None:
    dumped = json.dumps(line(text).as_dict())
    assert json.loads(dumped)["text"] == text
    assert dumped.isascii()
    assert dumped.isprintable()


def test_a_line_says_when_where_and_what() -> None:
    assert str(line("x\ny")) == f"2026-11-24T08:00:00Z workers/{HOST} x y"
    scheduler = line("\x1b[31mred\x07 \u202eabc", group="scheduler")
    assert str(scheduler) == "2026-11-24T08:00:00Z scheduler \ufffd[31mred\ufffd \ufffdabc"
    assert line("x").as_dict() == {
        "at": "2026-11-24T08:00:00.000Z",
        "run": RUN,
        "group": "workers",
        "host": HOST,
        "level": None,
        "text": "x",
    }


@pytest.mark.parametrize(
    ("text", "level", "is_of_a_task"),
    [
        ("partition 7", None, True),
        ("2026-11-24 08:00:00,123 - distributed.worker - INFO - Start worker", "info", False),
        (
            "2026-11-24 08:00:00,123 - distributed.worker - WARNING - Compute Failed",
            "warning",
            True,
        ),
        ("Traceback (most recent call last):", "error", True),
        ("terradask-host: version 0.1.0", "info", False),
        ("cloud-init: Cloud-init v. 22.2.2 running 'init'", None, False),
    ],
)
def test_lines_of_tasks_are_theirs_and_what_went_wrong(
    text: str, level: Level | None, *, is_of_a_task: bool
) -> None:
    assert is_of_tasks(dataclasses.replace(line(text), level=level)) == is_of_a_task


def test_lines_fit_narrow_terminals_and_have_a_colour_by_host_in_a_terminal() -> None:
    assert format_line(line("x"), is_narrow=True) == "08:00:00 workers/…bcdef0 x"
    assert format_line(line("x", group="scheduler"), is_narrow=True) == "08:00:00 scheduler x"
    dasks = line("2026-11-24 08:00:00,123 - distributed.worker - INFO - x", group="scheduler")
    assert format_line(dasks, is_narrow=True) == "08:00:00 scheduler distributed.worker - INFO - x"
    assert format_line(dasks) == "2026-11-24T08:00:00Z scheduler distributed.worker - INFO - x"
    coloured = format_line(line("x"), in_colour=True)
    assert coloured.startswith("2026-11-24T08:00:00Z \x1b[")
    assert coloured == format_line(line("x"), in_colour=True)
    assert coloured.endswith("\x1b[0m x")


def test_logs_are_a_sequence_that_says_what_it_has() -> None:
    logs = ClusterLogs("etl", [line("<a>\x1b"), line("b", group="scheduler")])
    assert [one.text for one in logs] == ["<a>\x1b", "b"]
    assert logs[0].text == "<a>\x1b"
    assert isinstance(logs[1:], ClusterLogs)
    assert repr(logs) == (
        f"ClusterLogs('etl', run {RUN}, 2 lines, 1 host, 2026-11-24 08:00:00Z to "
        "2026-11-24 08:00:00Z)"
    )
    assert repr(ClusterLogs("etl", [])) == "ClusterLogs('etl', no lines)"
    shown = logs._repr_html_()
    assert "&lt;a&gt;\ufffd" in shown
    assert "<a>" not in shown
    assert "2 runs" in repr(ClusterLogs("etl", [line("a"), line("b", run=None)]))
    many = ClusterLogs("etl", [line(f"n{n};") for n in range(1001)])
    assert "the newest 1000 are shown" in many._repr_html_()
    assert "n0;" not in many._repr_html_()
    assert str(many).count("\n") == 1000


@pytest.mark.parametrize(
    ("text", "ago_seconds"),
    [
        ("10m", 600),
        ("2h", 7200),
        ("1d12h", 129_600),
        ("90s", 90),
        ("1w", 604_800),
        ("2026-11-24T08:00", 0),
        ("2026-11-24", 28_800),
        ("2026-11-24T07:30:00Z", 1800),
        ("2026-11-24 09:00+01:00", 0),
    ],
)
def test_times_are_in_utc(text: str, ago_seconds: int) -> None:
    assert parse_moment(text, NOW, "since") == NOW - datetime.timedelta(seconds=ago_seconds)


def test_times_are_pythons_too() -> None:
    assert parse_moment(datetime.timedelta(hours=1), NOW, "since").hour == 7
    assert parse_moment(datetime.datetime(2026, 11, 24), NOW, "since").tzinfo is datetime.UTC


@pytest.mark.parametrize(
    "text", ["", "yesterday", "10", "-5m", "5 m", "9" * 30 + "d", "2026-13-01"]
)
def test_other_times_are_refused(text: str) -> None:
    with pytest.raises(InvalidInput, match=r"since is not a time(?s:.)*10m, 2h, 1d12h"):
        parse_moment(text, NOW, "since")


def test_times_are_counted_as_cloudwatch_does() -> None:
    assert from_milliseconds(milliseconds(NOW)) == NOW
    assert milliseconds(datetime.datetime(1960, 1, 1, tzinfo=datetime.UTC)) == 0
    assert from_milliseconds(2**62).year == 9999
    assert run_start(RUN) == NOW - datetime.timedelta(minutes=10)
    first = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert run_start("-") == run_start(None) == first
    assert run_start("99999999T999999Z-ab") == first
    assert run_start("20200101T000000Z-ab") == first


@pytest.mark.parametrize(
    ("asked", "problem"),
    [
        ({"tail": 0}, "tail is not a number"),
        ({"level": "loud"}, "no such level"),
        ({"pattern": "("}, "not a valid regular expression"),
        ({"since": "x"}, "since is not a time"),
        ({"until": "x"}, "until is not a time"),
    ],
)
def test_what_cant_be_asked_is_refused(asked: dict[str, object], problem: str) -> None:
    with pytest.raises(InvalidInput, match=problem):
        LogQuery.of(**asked)  # type: ignore[arg-type]


class LoggedDeployment:
    """A cluster's logs, and what was asked of them."""

    def __init__(self, *lines: LogLine) -> None:
        self.lines = lines
        self.words: list[str] = []

    def logs(self, *words: str, tail: int) -> Sequence[LogLine]:
        self.words += words
        return self.lines


def test_logs_have_dasks_form_and_names() -> None:
    logged: Any = LoggedDeployment(line("a\x1b"), line("b", group="scheduler"), line("c"))
    logs = dask_logs(logged, ["of this process"], cluster=True)
    assert logs == {"Cluster": "of this process", HOST: "a\ufffd\nc", "Scheduler": "b"}
    assert dask_logs(logged, ["of this process"], False, False) == {}


@pytest.mark.parametrize(
    ("scheduler", "workers", "words"),
    [
        (True, True, ["scheduler", "workers"]),
        (True, False, ["scheduler"]),
        (False, True, ["workers"]),
        (False, False, []),
        (False, [], []),
        (False, HOST, [HOST]),
        (True, [f"{HOST}-2", f"scheduler-{HOST}", "x"], ["scheduler", HOST, HOST, "x"]),
    ],
)
def test_workers_are_hosts(scheduler: bool, workers: bool | list[str], words: list[str]) -> None:
    logged: Any = LoggedDeployment()
    dask_logs(logged, [], scheduler, workers)
    assert logged.words == words


def stream(number: int, group: str = "workers") -> LogStream:
    return LogStream("etl", RUN, group, f"i-{number:017x}")


KNOWN = [stream(0, "scheduler"), stream(1), stream(2, "gpu"), stream(3, "gpu-spot"), stream(0xAB12)]


def chosen(*words: str, known: list[LogStream] = KNOWN) -> tuple[str | None, int, list[int]]:
    """Return the prefix, the number of names, and which of the known streams are wanted."""
    found = choose_streams("etl", RUN, words, known)
    named = [
        number
        for number, one in enumerate(known)
        if found.wanted(one) and (not found.names or one.name in found.names)
    ]
    return found.prefix, len(found.names), named


def test_hosts_are_read_by_prefix_or_by_name() -> None:
    assert chosen() == (f"etl/{RUN}/", 0, [0, 1, 2, 3, 4])
    assert chosen("scheduler") == (f"etl/{RUN}/scheduler/", 0, [0])
    assert chosen("workers") == (f"etl/{RUN}/", 0, [1, 2, 3, 4])
    assert chosen("gpu") == (f"etl/{RUN}/", 0, [2, 3])
    assert chosen("ab12") == (None, 1, [4])
    assert chosen("gpu", "scheduler", stream(1).instance_id) == (f"etl/{RUN}/", 0, [0, 1, 2, 3])
    assert choose_streams("etl", None, (), ()).prefix == "etl/"


def test_more_hosts_than_can_be_named_are_read_by_prefix() -> None:
    many = [stream(number) for number in range(150)]
    words = [one.instance_id for one in many[:101]]
    assert chosen(*words[:100], known=many) == (None, 100, list(range(100)))
    assert chosen(*words, known=many) == (f"etl/{RUN}/", 0, list(range(101)))


@pytest.mark.parametrize("word", ["12", "i-", "", "gpu-spot", "nothing", "i-0000"])
def test_unknown_hosts_are_answered_with_the_known(word: str) -> None:
    with pytest.raises(InvalidInput, match=r"no such host or group(?s:.)*scheduler, workers, gpu"):
        choose_streams("etl", RUN, (word,), KNOWN)


def test_an_error_names_some_of_many_hosts() -> None:
    many = [stream(number) for number in range(150)]
    with pytest.raises(InvalidInput) as error:
        choose_streams("etl", RUN, ("nothing",), many)
    assert "… (150 hosts)" in str(error.value.allowed)


# ---- what is shown without --all -----------------------------------------------------------------

BOOT = ("cloud-init: begins", "terradask-boot: service starts", "terradask-host: version 0.1.0")
INFO = "2026-11-24 08:00:00,123 - distributed.worker - INFO - Start worker"
TEXTS = (*BOOT, INFO, "terradask-host: joined tls://10.0.0.5:8786", INFO, "partition 7")


def said(*texts: str, host: str = HOST, after: float = 0) -> list[LogLine]:
    levels = LineLevels()
    at = NOW + datetime.timedelta(seconds=after)
    return [LogLine(at, host, "workers", RUN, levels.level_of(host, text), text) for text in texts]


def selected(*lines: LogLine) -> tuple[list[str], int]:
    select = SelectedLines()
    return [each.text for each in select(lines)], select.left_out


def test_of_a_host_that_serves_only_its_tasks_lines_and_what_went_wrong_are_shown() -> None:
    warning = "terradask-host: WARNING: no tags"
    assert selected(*said(*TEXTS)) == (["partition 7"], 6)
    assert selected(*said(BOOT[0], warning, *TEXTS[1:]))[0] == [warning, "partition 7"]
    # Of a host program of an earlier version.
    dasks = INFO.replace("Start worker", "        Registered to:     tls://10.0.0.5:8786")
    assert selected(*said(*BOOT, dasks, "partition 7"))[0] == ["partition 7"]
    # Its boot is before the first line.
    assert selected(*said(INFO, INFO, "partition 7")) == (["partition 7"], 2)
    scheduler = (*BOOT, "terradask-host: listening at tls://10.0.0.5:8786, boot 1", INFO)
    assert selected(*said(*scheduler)) == ([], 5)


def test_of_a_host_that_does_not_get_to_serve_every_line_is_shown() -> None:
    failed = [*BOOT, "no space left", "terradask-host: ERROR: it failed", "terradask-host: ends"]
    other = said(*TEXTS, host="i-1")
    assert selected(*said(*failed)) == (failed, 0)
    assert selected(*said(*failed), *other) == ([*failed, "partition 7"], 6)
    # A silent one comes at the end, or as soon as it is slow.
    assert selected(*said(*BOOT), *other) == (["partition 7", *BOOT], 6)
    late = said("terradask-host: still no key", after=181)
    assert selected(*said(*BOOT), *late, *other)[0] == [*BOOT, late[0].text, "partition 7"]


def test_of_a_long_boot_the_newest_lines_are_kept() -> None:
    shown, left_out = selected(*said(*(f"cloud-init: {n}" for n in range(300))))
    assert (shown[0], len(shown), left_out) == ("cloud-init: 100", 200, 100)
