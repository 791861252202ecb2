"""A headless Chromium."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

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


@contextmanager
def opened() -> Iterator[Browser]:
    """Open a browser, and close it."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=CHROMIUM, args=QUIET, chromium_sandbox=False
        )
        yield browser
        browser.close()
