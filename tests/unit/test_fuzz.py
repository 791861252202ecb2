"""Whatever is read from outside, be it nonsense: it is read, or refused with the one error that its
reader promises.

Documents are real ones with parts taken away and replaced, besides plain nonsense. A few of each
run with the suite, the same each time; thousands, drawn anew, with `make soak`.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from terradask._observe.documents import read_host_reports
from terradask.errors import TerradaskError

from .damaged_documents import AT, IN_SOAK, IN_SUITE, PLANTED, REPORT
from .outside_inputs import INPUTS, Input

#: Of a terminal, in both forms, and what turns the direction of a text.
ESCAPES = "\x1b]0;x\x07\x1b[2J\x9b1A\u202e"


def refusal(what: Input, given_input: Any) -> str:
    """Return how an input was refused; nothing where it was read."""
    try:
        what.read(given_input)
    except what.refused as error:
        return str(error)
    return ""


def planted(value: Any) -> Any:
    """Return an input with escape sequences at the end of each text in it."""
    if isinstance(value, dict):
        return {f"{key}": planted(each) for key, each in value.items()}
    if isinstance(value, list):
        return [planted(each) for each in value]
    if isinstance(value, bytes):
        return planted(value.decode(errors="replace")).encode(errors="surrogatepass")
    if not isinstance(value, str):
        return value
    try:
        document = json.loads(value)
    except ValueError:
        return value + ESCAPES
    return json.dumps(planted(document)) if isinstance(document, dict | list) else value + ESCAPES


def read_all(name: str, examples: int, *, drawn: bool) -> None:
    what = INPUTS[name]

    @settings(
        max_examples=examples,
        derandomize=not drawn,
        database=None,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(what.limiter)
    def read(given_input: Any) -> None:
        for one in (given_input, planted(given_input)):
            said = refusal(what, one)
            assert PLANTED not in said
            # Those of a host's own errors are taken out where its report is read.
            if what.refused == (TerradaskError,):
                assert not {letter for letter in said if not letter.isprintable()} - {"\n", "\t"}

    read()


STATES = ("a state, as text", "a lock of a state")
JSON_TEXTS = (
    *STATES,
    "the locked answers",
    "the network's word",
    "an object",
    "a host's object",
    "Terraform's events",
)


@pytest.mark.parametrize("name", INPUTS)
def test_outside_input_is_read_or_refused(name: str) -> None:
    read_all(name, IN_SUITE, drawn=False)


@pytest.mark.parametrize("opening", ["[", '{"a":'])
@pytest.mark.parametrize("name", JSON_TEXTS)
def test_json_that_is_nested_too_deeply_is_read_or_refused(name: str, opening: str) -> None:
    # The interpreter counts levels: no document of ours has a hundred.
    text = opening * 100_000
    given_input = text.encode() if name in STATES else text
    assert len(refusal(INPUTS[name], given_input)) < 2000


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", INPUTS)
def test_outside_input_is_read_or_refused_at_length(name: str) -> None:
    read_all(name, IN_SOAK, drawn=True)


def test_a_hosts_report_can_neither_rewrite_a_terminal_nor_stop_a_client(
    caplog: pytest.LogCaptureFixture,
) -> None:
    escape = "\x1b]0;x\x07\x1b[2K\x9b1A"
    hostile = {
        **REPORT,
        "reason": f"no disk{escape}",
        "log_tail": [f"line{escape}", "a\tb"],
        "notes": [[AT, "g", escape, escape]],
    }

    (read,) = read_host_reports(
        [{"format": 1}, {**REPORT, "history": 3}, hostile, {**REPORT, "at": "yesterday"}]
    )

    shown = "\n".join(
        [
            read.describe(),
            *read.describe_with_log(),
            *(text for note in read.notes for text in note),
        ]
    )
    assert "no disk" in shown
    assert "a\tb" in shown
    assert not {letter for letter in shown if not letter.isprintable()} - {"\n", "\t"}
    assert len(caplog.records) == 3
