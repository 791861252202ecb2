"""Documents, names, tags and errors that others wrote carry terminals' escape sequences and HTML:
shown as an uncaught error or by a notebook, they move no cursor and run nothing.
"""

from __future__ import annotations

import datetime
import os
import re
import subprocess
import sys
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._dask.display import EventTable, HardwareTable, cluster_page, scaling_table
from terradask._observe.events import Event
from terradask._observe.live_drawing import Drawing
from terradask._observe.live_page import page_of
from terradask._observe.live_view import GroupRow, HostRow, LiveView
from terradask._observe.logs.lines import ClusterLogs, LogLine
from terradask._observe.making import Step
from terradask_host.scaling_policy import ScalingPolicy
from terradask_modules.tracebacks import DEBUG_VARIABLE

from ..kernel import kernel
from ..waiting import PROCESS_SECONDS

ESCAPES = "\x1b]0;title\x07\x1b[2J\x1b[5A\x9b1A\x1b]8;;http://evil\x1b\\\u202e\r\x08"
HTML = (
    '<script>document.title="planted"</script><img src=x onerror="document.title=1">'
    "\"'><a href='javascript:alert(1)'>x</a><iframe src=//evil></iframe></pre></td>"
)
MARK = "planted"
PLANTED = f"{MARK}{ESCAPES}{HTML}"

#: Raises what a document of others could make: an error that quotes it, from an answer that has it
#: too, with a note, in a file of terradask's.
RAISE = f"""\
import types
import terradask
from terradask.errors import HostFailed
PLANTED = {PLANTED!r}
library = types.ModuleType("terradask._planted")
exec(compile('''
def fail(kind, planted, Inner):
    try:
        raise Inner(planted)
    except Inner as inner:
        error = kind(planted, reason=planted, log_tail=[planted], advice=planted)
        error.given, error.allowed = {{planted: planted}}, planted
        error.add_note(planted)
        raise error from inner
''', "planted.py", "exec"), library.__dict__)
"""
FAIL = "library.fail(HostFailed, PLANTED, ValueError)"
INTERRUPT = """\
from terradask_modules.short_errors import explain_interrupt
error = KeyboardInterrupt()
explain_interrupt(error, PLANTED, PLANTED)
raise error
"""

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def strange(text: str) -> set[str]:
    """Return a text's control characters, but for ends of lines and colours."""
    return {letter for letter in _COLOUR.sub("", text) if not letter.isprintable()} - {"\n", "\t"}


def environ_for_programs(home: Path, **more: str) -> dict[str, str]:
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("AWS_", "TERRADASK_", "PYTEST_", "COV_"))
    }
    return {**kept, "HOME": str(home), "IPYTHONDIR": str(home / "ipython"), **more}


def test_no_error_in_a_notebook_has_any_or_is_more_than_text(tmp_path: Path) -> None:
    with kernel(tmp_path, environ_for_programs(tmp_path)) as notebook:
        assert not notebook.run(RAISE).error
        shown = [notebook.run(FAIL), notebook.run("%tb")]
        notebook.run("%xmode Verbose")
        shown += [notebook.run(FAIL)]
        notebook.run(f"%xmode Context\n%env {DEBUG_VARIABLE}=1")
        shown += [notebook.run(FAIL)]
        notebook.run(f"%env {DEBUG_VARIABLE}=0")
        shown += [notebook.run(INTERRUPT)]
    for each in shown:
        assert MARK in each.raw
        assert not strange(each.raw), each.raw
        # JupyterLab shows it as text with colours, whatever is in it.
        kinds = {kind for kind, _ in each.messages} - {"status", "execute_input"}
        assert kinds == {"error"}
        (content,) = [content for kind, content in each.messages if kind == "error"]
        assert not strange(content["evalue"] or "")
    assert "document.title" not in shown[0].raw.split(MARK)[0]


@pytest.mark.parametrize("debug", ["0", "1"])
@pytest.mark.parametrize("code", [FAIL, INTERRUPT])
def test_no_error_of_a_script_has_any(tmp_path: Path, code: str, debug: str) -> None:
    file = tmp_path / "script.py"
    file.write_text(RAISE + code)
    done = subprocess.run(
        [sys.executable, str(file)],
        env=environ_for_programs(tmp_path, **{DEBUG_VARIABLE: debug}),
        capture_output=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    # Without the translation of line ends that text would have.
    shown = done.stderr.decode()
    assert MARK in shown
    assert not strange(shown), shown


# ---- pages of notebooks --------------------------------------------------------------------------

_RUNS = {"script", "iframe", "object", "embed", "base", "form", "meta", "link", "img", "video"}


class _Page(HTMLParser):
    """What in a page would run, or load something."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in _RUNS:
            self.found.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in {"src", "srcdoc"}:
                self.found.append(name)
            if name in {"href", "action"} and not (value or "").startswith(("http:", "https:")):
                self.found.append(f"{name}={value}")

    def handle_data(self, data: str) -> None:
        self.text += data


def planted_view() -> LiveView:
    return LiveView(
        PLANTED,
        PLANTED,
        facts=((PLANTED, PLANTED), ("owner", PLANTED)),
        groups=(GroupRow(PLANTED, 1, 1, PLANTED, (PLANTED,), {PLANTED: 1}),),
        waits=(PLANTED,),
        hosts=(HostRow(PLANTED, PLANTED, PLANTED, 1.0, PLANTED),),
        notes=(PLANTED,),
        step=PLANTED,
        problems=(PLANTED,),
        steps=(Step("apply", "now", 1.0, detail=PLANTED), Step("start", "next")),
        ends=(PLANTED,),
        links=((PLANTED, f"https://{PLANTED}"), ("dashboard", f"javascript:{PLANTED}")),
    )


NOW = datetime.datetime(2026, 11, 27, tzinfo=datetime.UTC)
COUNTED = cast("Any", SimpleNamespace(plan={PLANTED}, observed={PLANTED}))
WORKER = {
    "type": PLANTED,
    "id": PLANTED,
    "name": PLANTED,
    "host": PLANTED,
    "local_directory": PLANTED,
    "services": {"dashboard": 8787, PLANTED: 1},
    "resources": {PLANTED: 1},
    "nthreads": 1,
    "memory_limit": 1,
    "last_seen": 0.0,
    "metrics": {
        **dict.fromkeys(("executing", "in_memory", "ready", "in_flight", "cpu", "memory"), 1),
        "host_net_io": {"read_bps": 1, "write_bps": 1},
        "spilled_bytes": {"memory": 1, "disk": 1},
        PLANTED: PLANTED,
    },
}
SCHEDULER = {
    "type": PLANTED,
    "id": PLANTED,
    "address": f"tls://{MARK}:1",
    "services": {"dashboard": 8787},
    "started": 0.0,
    "n_workers": 1,
    "total_threads": 1,
    "total_memory": 1,
    "workers": {PLANTED: WORKER},
}


def pages() -> dict[str, str]:
    logs = ClusterLogs(PLANTED, [LogLine(NOW, PLANTED, PLANTED, PLANTED, PLANTED, PLANTED)])
    view = planted_view()
    dask = cluster_page(
        PLANTED, PLANTED, SCHEDULER, dashboard_link="https://127.0.0.1:1/status", status_row=None
    )
    hardware = {PLANTED: {"types": [PLANTED], "asked": {PLANTED: PLANTED}, "reason": PLANTED}}
    return {
        "events": EventTable([Event(NOW, *[PLANTED] * 5)])._repr_html_(),
        "hardware": HardwareTable(hardware)._repr_html_(),
        "closed": page_of(replace(view, state="closed", last=PLANTED)),
        "scaling": scaling_table({PLANTED: ScalingPolicy(1, 2)}, COUNTED, {PLANTED: COUNTED}),
        "view": page_of(view),
        "cluster": page_of(view, is_whole=True, below=dask),
        "logs": logs._repr_html_(),
    }


@pytest.mark.parametrize("name", list(pages()))
def test_no_page_of_a_notebook_runs_or_loads_anything(name: str) -> None:
    page = pages()[name]
    assert MARK in page
    found = _Page(page)
    assert found.found == []
    # It is there, as text.
    assert name == "scaling" or "<script>" in found.text


@pytest.mark.parametrize(
    "text",
    [
        Drawing(planted_view()).as_text(),
        repr(EventTable([Event(NOW, *[PLANTED] * 5)])),
        str(Event(NOW, *[PLANTED] * 5)),
        repr(ClusterLogs(PLANTED, [LogLine(NOW, *[PLANTED] * 5)])),
        str(ClusterLogs(PLANTED, [LogLine(NOW, *[PLANTED] * 5)])),
    ],
)
def test_no_text_that_a_terminal_shows_of_an_object_has_any(text: str) -> None:
    assert MARK in text
    assert not strange(text), text
