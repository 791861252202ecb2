"""The page of a view in a browser: its height while a cluster is made, its contrast, its width."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from playwright.sync_api import Page

from terradask._observe.live_page import Heights, heights_of, higher, page_of
from terradask._observe.live_view import LiveView

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM
from .live_views import LINKS, MAKING, NO_CAPACITY, NO_WHEEL, NOW, VIEWS, running, steps

pytestmark = NEEDS_CHROMIUM

#: From a narrow notebook to a wide one, in pixels.
WIDTHS = (330, 400, 520, 640, 760, 912, 1_300)
#: Backgrounds and words of JupyterLab's themes.
THEMES = {"light": ("#fff", "rgba(0,0,0,.87)"), "dark": ("#111", "#fff")}
#: The life of a cluster as its widget sees it.
LIFE = [
    LiveView("etl", "connecting", at=NOW),
    LiveView("etl", "making", steps=steps("hardware"), step="etl: finding zones", at=NOW),
    *(replace(MAKING, steps=steps("apply", f"{n} of 55", n / 55), at=NOW) for n in (1, 41)),
    *(
        replace(
            running(20, states),
            state="making",
            use=None,
            steps=steps("workers", f"{len(states) - 9} of 20"),
            step=f"etl: waiting for workers, {len(states) - 9} of 20 have joined",
        )
        for states in (
            [("booting", None)] * 9,
            [("running", None)] * 6 + [("environment", None)] * 9,
        )
    ),
    running(20, [("running", None)] * 20),
    running(20, [("running", None)] * 17 + [("failed", NO_WHEEL)], NO_CAPACITY),
    running(8, [("running", None)] * 8 + [("leaving", None)] * 12),
    running(8, [("running", None)] * 8),
]

#: The least contrast of words, and of signs and squares, with what is behind them.
CONTRAST = r"""() => {
    const numbers = (text) => text.match(/[\d.]+/g).map(Number);
    const colour = (text) => {
        const [r, g, b, a = 1] = numbers(text.replace("srgb", ""));
        return text.startsWith("color(") ? [255 * r, 255 * g, 255 * b, a] : [r, g, b, a];
    };
    const light = (rgb) => rgb.map((v) => v / 255)
        .map((v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, at) => sum + v * [0.2126, 0.7152, 0.0722][at], 0);
    const ground = colour(getComputedStyle(document.body).backgroundColor).slice(0, 3);
    const contrast = (text, opacity) => {
        const [r, g, b, a] = colour(text);
        const seen = [r, g, b].map((v, at) => v * a * opacity + ground[at] * (1 - a * opacity));
        const [dim, bright] = [light(seen), light(ground)].sort((x, y) => x - y);
        return (bright + 0.05) / (dim + 0.05);
    };
    const least = {words: [99], signs: [99]};
    const take = (kind, ratio, what) => {
        if (ratio < least[kind][0]) least[kind] = [ratio, what];
    };
    for (const each of document.querySelectorAll(".terradask-cluster *")) {
        if (each.closest("style") || !each.getClientRects().length) continue;
        let opacity = 1;
        for (let at = each; at; at = at.parentElement) opacity *= getComputedStyle(at).opacity;
        const style = getComputedStyle(each);
        const text = [...each.childNodes].filter((node) => node.nodeType === 3)
            .map((node) => node.data).join("").trim();
        if (text) take("words", contrast(style.color, opacity), text);
        if (each.closest(".td-again")) continue;
        if (each.tagName === "path")
            take("signs", contrast(style.stroke, opacity), each.className.baseVal);
        if (each.classList.contains("td-sign") && style.borderTopWidth !== "0px")
            take("signs", contrast(style.borderTopColor, opacity), each.className);
    }
    return least;
}"""


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium.opened() as browser:
        yield browser.new_page()


def show(page: Page, view: LiveView, theme: str = "light", least: Heights = ()) -> None:
    ground, words = THEMES[theme]
    style = f"margin: 0; background: {ground}; color: {words}"
    shown = page_of(view, least=least)
    page.set_content(f"<meta charset=utf-8><body style='{style}'>{shown}<p id=below>below</p>")


@pytest.mark.parametrize("width", WIDTHS)
def test_what_is_below_moves_down_at_most_and_seldom(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    tops, natural = [], []
    least: Heights = ()
    for view in LIFE:
        show(page, view)
        natural.append(page.locator("#below").bounding_box()["y"])  # type: ignore[index]
        least = higher(least, heights_of(view))
        show(page, view, least=least)
        tops.append(page.locator("#below").bounding_box()["y"])  # type: ignore[index]
    assert tops == sorted(tops)
    # Not known before: the plan's numbers, and what goes wrong.
    assert len(set(tops)) <= 5
    # Without it, it jumps; and not much of it stays empty.
    assert natural != sorted(natural)
    assert tops[LIFE.index(MAKING_LAST)] - natural[LIFE.index(MAKING_LAST)] < 120


MAKING_LAST = LIFE[6]


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("name", [name for name in VIEWS if name != "closed"])
def test_words_and_signs_are_readable_on_both_backgrounds(
    page: Page, name: str, theme: str
) -> None:
    page.set_viewport_size({"width": 1_000, "height": 900})
    view = replace(VIEWS[name], at=NOW, links=LINKS)
    show(page, view, theme)
    least: dict[str, Any] = page.evaluate(CONTRAST)
    assert least["words"][0] >= 4.5, least
    assert least["signs"][0] >= 4.5, least


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", ["making", "twenty", "thousand", "one"])
def test_nothing_of_a_view_is_cut_or_out_of_sight(page: Page, name: str, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    show(page, VIEWS[name])
    cut = page.evaluate(
        """() => [...document.querySelectorAll(".terradask-cluster, .terradask-cluster *")]
            .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth)
            .map((each) => `${each.tagName} ${each.className} ${each.textContent.slice(-40)}`)"""
    )
    assert cut == []
