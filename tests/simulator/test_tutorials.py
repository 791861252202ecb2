"""The tutorials work as they are written, on the embedded AWS."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient

from ..literal_pages import outputs, run_as_a_person, script_of, snippets
from ..quick_provider import QuickProvider

DOCS = Path(__file__).parents[2] / "docs"
#: What can't be typed here, with the reason.
UNUSABLE = {"pip install 'terradask[demo]'": "it is installed"}
CHANGED_AFTER_THE_REVIEW = 5

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")
_TIME = re.compile(r"\b\d\d:\d\d\b")

pytestmark = [pytest.mark.simulator, pytest.mark.life, pytest.mark.timeout(900)]


@pytest.fixture
def environ(tmp_path: Path, quick_provider: QuickProvider) -> dict[str, str]:
    """A new home, with terradask installed."""
    home = tmp_path / "home"
    home.mkdir()
    author = {"NAME": "A Reader", "EMAIL": "reader@example.com"}
    return {
        **os.environ,
        **quick_provider.environ,
        **{
            f"GIT_{who}_{what}": text
            for who in ("AUTHOR", "COMMITTER")
            for what, text in author.items()
        },
        "HOME": str(home),
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "TERM": "dumb",
    }


def typed(
    page: str, environ: dict[str, str], folder: Path, ends_with: Mapping[str, int] | None = None
) -> str:
    """Type a page's commands, and return what they print."""
    folder.mkdir()
    script, left_out = script_of(DOCS / page, unusable=UNUSABLE, ends_with=ends_with or {})
    assert left_out == UNUSABLE.keys()
    code, output = run_as_a_person(script, folder=folder, environ=environ, limit_seconds=800)
    output = _COLOUR.sub("", output)
    print(output)
    assert code == 0
    printed = _TIME.sub("at", output)
    for line in outputs(DOCS / page):
        assert _TIME.sub("at", line) in printed
    # No host runs when the embedded AWS ends.
    assert not re.search(r"ended with it: (?!group .*stopped)", output)
    return output


def test_a_notebook(sim_environ: dict[str, str], tmp_path: Path) -> None:
    page = DOCS / "tutorial-notebook.md"
    cells = [nbformat.v4.new_code_cell(text) for text in snippets(page)]
    NotebookClient(
        nbformat.v4.new_notebook(cells=cells),
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(tmp_path)}},
    ).execute()
    (answer,) = re.findall(r"The answer is (\d+)\.", page.read_text())
    results = [
        output["data"]["text/plain"]
        for cell in cells
        for output in cell.outputs
        if output["output_type"] == "execute_result"
    ]
    assert answer in results


def test_a_pull_request(environ: dict[str, str], tmp_path: Path) -> None:
    output = typed(
        "tutorial-pull-request.md",
        environ,
        tmp_path / "team",
        ends_with={"terradask apply plan": CHANGED_AFTER_THE_REVIEW},
    )
    report = output.partition("$ cat plan/report.md")[2].partition("$ ")[0]
    assert re.search(r"max_size.*4.*8", report)
    assert "no drift in network, etl" in output
    assert "network: destroyed" in output


def test_on_call(environ: dict[str, str], tmp_path: Path) -> None:
    output = typed("tutorial-on-call.md", environ, tmp_path / "call")
    statuses = output.split("$ terradask status nightly\r\n")
    assert len(statuses) == 3
    assert "InsufficientInstanceCapacity" in statuses[1].partition("$ ")[0]
    assert "InsufficientInstanceCapacity" not in statuses[2].partition("$ ")[0]
    assert re.search(r"workers +4 +4 ", statuses[2])
