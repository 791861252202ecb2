"""A headless Chromium."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, sync_playwright

from .golden import UPDATE_VARIABLE

_IMAGES = Path(__file__).parents[1] / "docs" / "images"

CHROMIUM = shutil.which("chromium")

NEEDS_CHROMIUM = pytest.mark.skipif(
    CHROMIUM is None,
    reason="no chromium on PATH: make chromium, as root on Debian, or install it",
)

#: Nothing that Chromium asks of the internet by itself.
QUIET = [
    *("--disable-gpu", "--disable-quic", "--disable-sync", "--disable-extensions"),
    *("--no-first-run", "--disable-background-networking", "--disable-component-update"),
]


#: How many rows of data the page's plots have: Bokeh's server sends them over its websocket.
ROWS = """() => (window.Bokeh?.documents ?? [])
    .flatMap((each) => [...each._all_models.values()])
    .filter((model) => model.type === "ColumnDataSource")
    .reduce((rows, source) => rows + (source.get_length() ?? 0), 0)"""


@contextmanager
def opened() -> Iterator[Browser]:
    """Open a browser, and close it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=QUIET, chromium_sandbox=False
        )
        yield browser
        browser.close()


def keep(what: Locator | Page, name: str, folder: Path) -> None:
    """Take a picture; with `UPDATE_VARIABLE` the docs get it."""
    picture = folder / name
    what.screenshot(path=picture)
    assert picture.stat().st_size > 5_000
    if os.environ.get(UPDATE_VARIABLE):
        shutil.copy(picture, _IMAGES / name)
