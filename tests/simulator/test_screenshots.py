"""The live view as a person looks at it, in JupyterLab and in its terminal, in a real browser.

The docs show these pictures. After a change that is meant: ``UPDATE_GOLDEN=1 .venv/bin/pytest -m
life tests/simulator/test_screenshots.py``, and look at them.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from terradask import Workspace
from terradask_simulator import Simulator

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM, keep
from ..jupyterlab import lab
from ..literal_pages import snippets
from ..waiting import PROCESS_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life, NEEDS_CHROMIUM]

DOCS = Path(__file__).parents[2] / "docs"

PATIENCE_MS = 1000 * PROCESS_SECONDS // 2

CELLS = [
    # The page that shows the picture also shows the cell.
    snippets(DOCS / "tutorial-notebook.md")[0].rstrip(),
    "import time\n\nclient = cluster.get_client()\n"
    "slept = client.map(lambda n: time.sleep(1), range(900), pure=False)",
    "cluster",
    "cluster.close()",
]


#: Notes whatever a view shows from now on, however short, and the first one's heights.
NOTE_TEXTS = """() => {
    window.noted = new Set();
    window.heights = [];
    const note = () => document.querySelectorAll(".terradask-cluster").forEach((view, at) => {
        noted.add(view.textContent);
        const height = Math.round(view.getBoundingClientRect().height);
        if (at === 0 && height && heights.at(-1) !== height) heights.push(height);
    });
    new MutationObserver(note).observe(
        document.body, {subtree: true, childList: true, characterData: true});
}"""


@pytest.fixture(scope="module")
def address(sim_environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A JupyterLab with one notebook."""
    folder, home = tmp_path_factory.mktemp("notebooks"), tmp_path_factory.mktemp("jupyter")
    cells = [
        {
            "cell_type": "code",
            "id": f"cell{number}",
            "source": source,
            "metadata": {},
            "execution_count": None,
            "outputs": [],
        }
        for number, source in enumerate(CELLS)
    ]
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    document = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    (folder / "tutorial.ipynb").write_text(json.dumps(document))
    with lab(folder, home) as served:
        yield served


@pytest.fixture
def page() -> Iterator[Page]:
    with chromium.opened() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 760})
        page.set_default_timeout(PATIENCE_MS)
        # JupyterLab may ask, or tell that a kernel isn't there yet.
        page.add_locator_handler(page.locator(".jp-Dialog"), accept)
        yield page


def accept(dialog: Locator) -> None:
    """Press a dialog's main button."""
    dialog.locator(".jp-mod-accept").first.click()


def run(cell: Locator, page: Page) -> None:
    """Run a cell; JupyterLab drops the keys while it connects to the kernel."""

    def has_begun() -> bool:
        cell.locator(".cm-content").click()
        page.keyboard.press("Shift+Enter")
        page.wait_for_timeout(1_000)
        return cell.locator(".jp-InputPrompt").inner_text() != "[ ]:"

    eventually(has_begun)


def test_a_notebook_shows_a_cluster_while_it_is_made_and_until_it_is_closed(
    address: str, page: Page, tmp_path: Path
) -> None:
    page.goto(address.format("/doc/tree/tutorial.ipynb"))
    cells = page.locator(".jp-Notebook-cell")
    expect(cells).to_have_count(len(CELLS), timeout=PATIENCE_MS)
    expect(page.locator(".jp-Notebook-ExecutionIndicator[data-status=idle]")).to_be_visible(
        timeout=PATIENCE_MS
    )
    page.evaluate(NOTE_TEXTS)
    run(cells.first, page)
    view = cells.first.locator(".terradask-cluster")
    # It is there for a second or two, in which a busy machine may not look.
    page.wait_for_function("() => [...noted].some((text) => text.includes('2 planned'))")
    keep_in_both(cells.first, "notebook-making", tmp_path)
    expect(view).to_contain_text("2 running", timeout=PATIENCE_MS)
    expect(view).to_contain_text("an hour", timeout=PATIENCE_MS)
    expect(view.get_by_role("link", name="dashboard")).to_have_attribute(
        "href", re.compile("http://127.0.0.1:"), timeout=PATIENCE_MS
    )
    expect(view.get_by_role("meter", name="memory")).to_have_attribute(
        "aria-valuetext", re.compile(r"\d of [\d.]+ GiB"), timeout=PATIENCE_MS
    )
    run(cells.nth(1), page)
    expect(view).to_contain_text(
        re.compile(r"tasks: \d+ on workers, .* queued"), timeout=PATIENCE_MS
    )
    keep_in_both(cells.first, "notebook-running", tmp_path)
    heights = page.evaluate("heights")
    # What is below moves down at most, and seldom.
    assert heights == sorted(heights)
    assert len(heights) <= 4
    for width in (640, 1_600):
        page.set_viewport_size({"width": width, "height": 760})
        page.wait_for_timeout(500)
        assert view.evaluate("view => view.scrollWidth - view.clientWidth") <= 0
        cells.first.screenshot(path=tmp_path / f"notebook-{width}.png")
    page.set_viewport_size({"width": 1_100, "height": 760})
    # The object itself shows the same, and Dask's own page below.
    run(cells.nth(2), page)
    expect(cells.nth(2)).to_contain_text("2 running", timeout=PATIENCE_MS)
    cells.nth(2).get_by_text("Dask's own view").click()
    expect(cells.nth(2)).to_contain_text("Total threads", timeout=PATIENCE_MS)
    cells.nth(2).screenshot(path=tmp_path / "notebook-object.png")
    run(cells.nth(3), page)
    expect(view).to_contain_text("tutorial: closed after", timeout=PATIENCE_MS)
    expect(view).to_contain_text("its deployment is destroyed")
    expect(view.locator("a")).to_have_count(0)


def keep_in_both(what: Locator, name: str, folder: Path) -> None:
    """Take pictures in light and dark."""
    page = what.page
    for scheme, suffix, is_light in (("dark", "-dark", "false"), ("light", "", "true")):
        page.emulate_media(color_scheme=scheme)
        page.locator(f"body[data-jp-theme-light={is_light}]").wait_for(state="attached")
        page.wait_for_timeout(300)
        keep(what, f"{name}{suffix}.png", folder)


def test_a_terminal_shows_a_cluster_that_starts(
    address: str,
    page: Page,
    tmp_path: Path,
    sim: Simulator,
    request: pytest.FixtureRequest,
) -> None:
    workspace = Workspace.load()
    request.addfinalizer(lambda: workspace.destroy_cluster("nightly"))
    with sim.hollow_hosts():
        deployment = workspace.apply(workspace.plan_cluster("nightly", max_workers=40))
        deployment.start(n_workers=20)
        page.goto(address.format("/lab"))
        page.locator('.jp-LauncherCard[title="Start a new terminal session"]').click()
        page.locator(".jp-Terminal-body").click()
        page.keyboard.type(f"clear; {sys.executable} -m terradask status nightly --watch\n")
        rows = page.locator(".jp-Terminal-body .xterm-accessibility-tree")
        expect(rows).to_contain_text("20 running", timeout=PATIENCE_MS)
        keep_in_both(page.locator(".jp-Terminal-body"), "terminal-watch", tmp_path)
        for width in (640, 1_600):
            page.keyboard.press("Control+c")
            expect(rows).to_contain_text("closed; nothing was changed", timeout=PATIENCE_MS)
            page.set_viewport_size({"width": width, "height": 760})
            page.keyboard.type(f"clear; {sys.executable} -m terradask status nightly --watch\n")
            expect(rows).not_to_contain_text("closed", timeout=PATIENCE_MS)
            # A narrow one leaves out another host if its lines are wrapped.
            for text in ("20 running", re.compile(r"and 1[1-9] more"), "logs in CloudWatch"):
                expect(rows).to_contain_text(text, timeout=PATIENCE_MS)
            page.locator(".jp-Terminal-body").screenshot(path=tmp_path / f"terminal-{width}.png")
        page.keyboard.press("Control+c")
        expect(rows).to_contain_text("closed; nothing was changed", timeout=PATIENCE_MS)
