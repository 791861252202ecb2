"""Comments as GitHub and GitLab show them, in a browser: on a wide page, on a phone, in the dark.

The docs show some of these pictures. After a change that is meant: ``UPDATE_GOLDEN=1
.venv/bin/pytest -m life tests/simulator/test_report_pictures.py``, and look at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page

from terradask._plans.render_markdown import to_markdown

from ..browser import NEEDS_CHROMIUM, keep, opened
from ..code_hosts import Host
from ..comment_pages import NEEDS_STYLES, PHONE, WIDE, Theme, page
from ..unit.review_plans import CHANGES, change

pytestmark = [pytest.mark.life, NEEDS_CHROMIUM, NEEDS_STYLES]

HOSTS: tuple[Host, ...] = ("github", "gitlab")
THEMES: tuple[Theme, ...] = ("light", "dark")
#: The height of a usual window, and of a phone's, in pixels.
SCREEN, PHONES_SCREEN = 900, 844
#: What docs/ shows.
SHOWN = {
    ("replaced-vpc", "github", WIDE): "comment-replaced-vpc",
    ("replaced-vpc", "gitlab", WIDE): "comment-replaced-vpc-gitlab",
    ("replaced-vpc", "github", PHONE): "comment-replaced-vpc-phone",
    ("fifty-stacks", "github", WIDE): "comment-fifty-stacks",
}
#: Elements that are wider than the page's text, unless they scroll by themselves.
CUT = """() => {
    const width = document.documentElement.clientWidth;
    return [...document.querySelectorAll(".comment *")]
        .filter((each) => !each.closest("pre, table"))
        .filter((each) => each.getBoundingClientRect().right > width + 1)
        .map((each) => each.textContent.slice(0, 80));
}"""
SIDEWAYS = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
#: Code and tables that scroll, of what is seen.
SCROLLING = """[...document.querySelectorAll("pre, table")]
    .filter((each) => each.checkVisibility() && each.scrollWidth > each.clientWidth).length"""
WIDE_TABLES = """[...document.querySelectorAll("table")]
    .map((each) => each.scrollWidth - each.clientWidth).filter((more) => more > 0)"""
CLOSED = "[...document.querySelectorAll('details')].every((each) => !each.open)"
#: Open each fold by its summary; return those that show nothing then.
UNFOLD = """() => [...document.querySelectorAll("details")].filter((each) => {
    const before = each.getBoundingClientRect().height;
    each.querySelector("summary").click();
    return !each.open || each.getBoundingClientRect().height < before + 10;
}).length"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as browser:
        yield browser


def view(browser: Browser, name: str, host: Host, theme: Theme, width: int, height: int) -> Page:
    made = browser.new_page(viewport={"width": width, "height": height})
    made.set_content(page(to_markdown(change(name)), host=host, theme=theme, width=width))
    return made


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_cut_and_every_fold_opens(
    name: str, host: Host, width: int, theme: Theme, browser: Browser, tmp_path: Path
) -> None:
    seen = view(browser, name, host, theme, width, 200)
    assert seen.evaluate(CLOSED)
    assert seen.evaluate(CUT) == []
    assert seen.evaluate(SIDEWAYS) == 0
    # Before anything is unfolded, not even a table or a block of code scrolls.
    assert seen.evaluate(SCROLLING) == 0
    comment = seen.locator(".comment")
    dark = "-dark" if theme == "dark" else ""
    if (name, host, width) in SHOWN:
        keep(comment, f"{SHOWN[name, host, width]}{dark}.png", tmp_path)
    else:
        comment.screenshot(path=tmp_path / f"{name}-{host}-{width}{dark}.png")
    assert seen.evaluate(UNFOLD) == 0
    assert seen.evaluate(WIDE_TABLES) == []
    assert seen.evaluate(CUT) == []
    assert seen.evaluate(SIDEWAYS) == 0
    seen.close()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", CHANGES)
def test_all_before_the_first_fold_is_on_the_first_screen(
    name: str, host: Host, browser: Browser
) -> None:
    seen = view(browser, name, host, "light", WIDE, SCREEN)
    box = seen.locator("details").first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < SCREEN
    seen.close()


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("name", CHANGES)
def test_a_phones_first_screen_has_the_verdict_cautions_and_costs(
    name: str, host: Host, browser: Browser
) -> None:
    seen = view(browser, name, host, "light", PHONE, PHONES_SCREEN)
    first = seen.evaluate(
        """(height) => [...document.querySelectorAll("h2, .markdown-alert, .markdown-alert ~ ul")]
            .slice(0, 3).map((each) => Math.round(each.getBoundingClientRect().bottom))"""
    )
    assert first
    assert max(first) < PHONES_SCREEN
    text = seen.inner_text("h2")
    assert text.startswith(("etl: ", "workspace default: "))
    seen.close()


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("host", HOSTS)
def test_a_diff_has_two_colours_and_a_caution_a_third(
    host: Host, theme: Theme, browser: Browser
) -> None:
    seen = view(browser, "widened-rule", host, theme, WIDE, SCREEN)
    lines = seen.locator(".markdown-alert pre span")
    colours = [
        lines.nth(at).evaluate("(each) => getComputedStyle(each).backgroundColor") for at in (0, 1)
    ]
    edge = seen.locator(".markdown-alert").evaluate(
        "(each) => getComputedStyle(each).borderLeftColor"
    )
    assert len({*colours, edge}) == 3
    assert "rgba(0, 0, 0, 0)" not in colours
    assert seen.inner_text(".markdown-alert-title") == "Caution"
    seen.close()
