"""The site of the documentation: no dead link, a search, readable at desktop and phone width."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote

import pytest

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM
from .public_surface import docs_page

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
    schema = (ROOT / "docs/report.schema.json").read_bytes()
    assert (site / "docs/report.schema.json").read_bytes() == schema


class Links(HTMLParser):
    """The addresses and the anchors of one page of the site."""

    def __init__(self, page: Path) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.anchors = {""}
        self.feed(page.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.anchors.add(given.get("id") or "")
        self.addresses += [given[name] or "" for name in ("href", "src") if name in given]


def dead_links(site: Path) -> list[str]:
    """Return the links between the site's pages that lead nowhere, its menus and pictures too."""
    pages = {page: Links(page) for page in sorted(site.rglob("*.html"))}
    found = []
    for page, links in pages.items():
        for address in links.addresses:
            path, _, anchor = unquote(address.partition("?")[0]).partition("#")
            if "://" in path or path.startswith(("mailto:", "data:")):
                continue
            target = (page.parent / path).resolve() if path else page
            known = pages[target].anchors if target in pages else {anchor}
            if not target.exists() or anchor not in known:
                found.append(f"{page.relative_to(site)}: {address}")
    return found


@pytest.mark.life
def test_no_link_or_picture_of_the_site_is_dead(site: Path) -> None:
    assert dead_links(site) == []


def test_dead_links_of_a_site_are_found(tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text('<a href="two.html#here"></a><img src="no.png">')
    (tmp_path / "two.html").write_text('<p id="there"></p><a href="one.html"></a><a href="#no">')
    assert dead_links(tmp_path) == ["one.html: two.html#here", "one.html: no.png", "two.html: #no"]


@pytest.mark.life
def test_the_landing_page_has_three_ways_in(site: Path) -> None:
    first = (site / "index.html").read_text(encoding="utf-8")
    ways = first.partition('id="start-here"')[2].partition("</ul>")[0]
    assert re.findall(r'href="docs/(tutorial-[a-z-]+)\.html"', ways) == [
        "tutorial-notebook",
        "tutorial-pull-request",
        "tutorial-on-call",
    ]
    assert re.findall(r'<img class="only-(dark|light)" src="docs/images/overview', first) == [
        "dark",
        "light",
    ]


def test_a_picture_with_a_dark_twin_follows_the_theme(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "docs")
    (tmp_path / "view-dark.png").touch()
    one, two = (f'<img alt="A" src="../_images/{name}.png" />' for name in ("view", "other"))
    pictures = docs_page("conf").with_dark_twins(one + two, tmp_path)
    assert pictures == (
        '<img class="only-dark" alt="A" src="../docs/images/view-dark.png" >'
        f'<img class="only-light" alt="A" src="../_images/view.png" >{two}'
    )


@pytest.mark.life
def test_assistants_get_a_list_and_all_pages_as_one_text(site: Path) -> None:
    listed = (site / "llms.txt").read_text(encoding="utf-8")
    assert listed.startswith("# terradask\n\n> ")
    addresses = re.findall(r"\]\(([^)]+\.html)\)", listed)
    assert len(addresses) > 40
    assert [one for one in addresses if not (site / one).exists()] == []
    whole = (site / "llms-full.txt").read_text(encoding="utf-8")
    # One heading of the first level begins none of them: it is one text.
    code = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
    assert re.findall(r"^# .*", code.sub("", whole), re.MULTILINE) == []
    for title in ("## terradask", "## Command line", "## Troubleshooting"):
        assert f"\n{title}\n" in whole
    links = re.findall(r"\]\((?!https?:)([^)#\s]+)", code.sub("", whole))
    assert [link for link in links if not (ROOT / link).exists()] == []


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
            grounds = []
            for scheme in ("light", "dark"):
                page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
                grounds.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
            assert len(set(grounds)) == 2
            page.emulate_media(color_scheme="light")
            page.goto(f"{url}/search.html?q=spot_with_fallback")
            page.locator("#search-results li a").first.wait_for()
            assert complaints == []
            page.close()
