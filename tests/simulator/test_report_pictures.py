"""Comments as a code host shows them, in a browser: on a wide page, on a phone, in the dark.

The docs show some of these pictures. After a change that is meant: ``UPDATE_GOLDEN=1
.venv/bin/pytest -m life tests/simulator/test_report_pictures.py``, and look at them.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from terradask._plans.render_markdown import to_markdown

from ..browser import NEEDS_CHROMIUM, keep, opened
from ..comment_pages import PHONE, WIDE, Theme, page
from ..unit.review_plans import CHANGES, change

pytestmark = [pytest.mark.life, NEEDS_CHROMIUM]

#: The height of a usual window, in pixels.
SCREEN = 900
#: What docs/ shows.
SHOWN = ("replaced-vpc", "fifty-stacks")
#: Elements that are wider than the page's text, unless they scroll by themselves.
CUT = """() => {
    const width = document.documentElement.clientWidth;
    return [...document.querySelectorAll(".comment *")]
        .filter((each) => !each.closest("pre, table"))
        .filter((each) => each.getBoundingClientRect().right > width + 1)
        .map((each) => each.textContent.slice(0, 80));
}"""
UNFOLD = "() => document.querySelectorAll('details').forEach((each) => { each.open = true; })"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with opened() as browser:
        yield browser


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [WIDE, PHONE])
@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_cut(
    name: str, width: int, theme: Theme, browser: Browser, tmp_path: Path
) -> None:
    view = browser.new_page(viewport={"width": width, "height": 200})
    view.set_content(page(to_markdown(change(name)), theme=theme, width=width))
    assert view.evaluate(CUT) == []
    # Before anything is unfolded, not even a table or a block of code is wider.
    assert view.evaluate("document.querySelectorAll('.comment > table').length") == 0
    assert (
        view.evaluate(
            "[...document.querySelectorAll('pre')].filter((e) => e.checkVisibility() && "
            "e.scrollWidth > e.clientWidth).length"
        )
        == 0
    )
    comment = view.locator(".comment")
    dark = "-dark" if theme == "dark" else ""
    if width == WIDE and name in SHOWN:
        keep(comment, f"comment-{name}{dark}.png", tmp_path)
    else:
        comment.screenshot(path=tmp_path / f"{name}.png")
    view.evaluate(UNFOLD)
    assert view.evaluate(CUT) == []
    view.close()


def test_fifty_stacks_are_one_screen_before_the_first_fold(browser: Browser) -> None:
    view = browser.new_page(viewport={"width": WIDE, "height": SCREEN})
    view.set_content(page(to_markdown(change("fifty-stacks"))))
    box = view.locator("details").first.bounding_box()
    assert box is not None
    assert box["y"] < SCREEN
    view.close()
