"""The site of the documentation: no dead link, a search, readable at desktop and phone width."""

from __future__ import annotations

import functools
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    done = built(ROOT, folder)
    assert done.returncode == 0, done.stderr
    return folder


def built(root: Path, folder: Path) -> subprocess.CompletedProcess[str]:
    strict = [
        "--quiet",
        "--fail-on-warning",
        "--keep-going",
        "--doctree-dir",
        f"{folder}/.doctrees",
    ]
    # A third of a build is garbage collection.
    program = "import gc, sys; gc.disable(); from sphinx.cmd.build import main; sys.exit(main())"
    command = [sys.executable, "-c", program, *strict, "-c", str(ROOT / "docs")]
    return subprocess.run(
        [*command, str(root), str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.mark.life
def test_every_page_of_the_documentation_is_in_it(site: Path) -> None:
    pages = [
        ROOT / "README.md",
        *ROOT.glob("docs/**/*.md"),
        *ROOT.glob("examples/**/README.md"),
        *ROOT.glob("simulator/**/*.md"),
    ]
    assert [
        p for p in pages if not (site / p.relative_to(ROOT)).with_suffix(".html").exists()
    ] == []
    assert (site / "docs/images/overview.svg").exists()


def test_a_dead_link_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "README.md").write_text("# One\n\n[two](docs/two.md#nowhere)\n")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/two.md").write_text("# Two\n\n[three](three.md)\n")
    done = built(tmp_path, tmp_path / "site")
    assert done.returncode != 0
    assert "nowhere" in done.stderr
    assert "three.md" in done.stderr


@NEEDS_CHROMIUM
@pytest.mark.life
def test_it_is_read_at_both_widths_and_searched(url: str) -> None:
    with chromium.opened() as browser:
        for width in (1280, 390):
            page = browser.new_page(viewport={"width": width, "height": 844})
            complaints: list[str] = []
            page.on("pageerror", lambda error: complaints.append(str(error)))  # noqa: B023
            page.on("requestfailed", lambda request: complaints.append(request.url))  # noqa: B023
            for path in ("", "docs/settings.html", "docs/python.html", "docs/benchmarks.html"):
                page.goto(f"{url}/{path}")
                beyond = "document.documentElement.scrollWidth - window.innerWidth"
                assert page.evaluate(beyond) <= 0, (width, path)
            assert page.locator("h1").first.inner_text().startswith("Benchmarks")
            if width < 1000:
                page.locator(".mobile-header label[for=__navigation]").click()
            # It comes in from the left.
            place = "document.querySelector('.sidebar-drawer').getBoundingClientRect().left"
            page.wait_for_function(f"{place} >= 0")
            page.get_by_role("link", name="First steps", exact=True).first.click()
            page.wait_for_url(f"{url}/docs/first-steps.html")
            page.goto(f"{url}/search.html?q=spot_with_fallback")
            page.locator("#search-results li a").first.wait_for()
            assert complaints == []
            page.close()
