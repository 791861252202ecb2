"""A cluster as a person watches it: readable with one host, twenty and a thousand."""

from __future__ import annotations

import datetime
import html
import io
import re
import time
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import pytest
from rich.console import Console

from terradask._common.dollars import shown_usd
from terradask._observe.live_drawing import Drawing, Steady
from terradask._observe.live_frame import Strip, frame_of, price_words
from terradask._observe.live_page import heights_of, page_of
from terradask._observe.live_view import GroupRow, JoinedWorker, LiveView, Price, Use, live_view
from terradask_host.documents import Ended

from ..golden import check_golden
from .live_views import (
    GIB,
    MAKING,
    NO_CAPACITY,
    NO_WHEEL,
    NOW,
    PLANNED,
    POOLS,
    RUN,
    VIEWS,
    drawn,
    report,
    running,
    status,
    steps,
)

FRAMES = Path(__file__).parent / "data" / "live_frames"


def text_of(page: str) -> str:
    """Return what a reader of a page hears: its text and its labels."""
    labels = " ".join(re.findall(r'aria-(?:label|valuetext)="([^"]*)"', page))
    shown = re.sub("<[^>]*>", " ", re.sub("<style>.*?</style>", "", page, flags=re.DOTALL))
    return html.unescape(f"{labels} {shown}")


@pytest.mark.parametrize("columns", [80, 200])
@pytest.mark.parametrize("name", VIEWS)
def test_frames_are_as_kept(name: str, columns: int) -> None:
    shown = drawn(VIEWS[name], columns=columns)
    assert max(map(len, shown.splitlines())) <= columns
    check_golden(FRAMES / f"{name}-{columns}.txt", f"{shown}\n")


@pytest.mark.parametrize("name", VIEWS)
def test_a_notebook_gets_all_that_a_terminal_gets(name: str) -> None:
    """Both draw one frame."""
    frame = frame_of(VIEWS[name])
    page, lines = text_of(page_of(VIEWS[name])), " ".join(drawn(VIEWS[name]).split())
    if frame.last is not None:
        assert frame.last in page
        assert lines == frame.last
        return
    words = [
        *(frame.name, frame.state, frame.price, frame.age, frame.now, frame.ends, frame.more),
        *(f"{step.name} {step.time}".strip() for step in frame.steps),
        *(frame.trouble, *frame.problems),
        *(text for group in frame.groups for _, text in group.strip.legend),
        *(cell for host in frame.hosts for cell in host.cells),
        *(meter.text for group in frame.groups for meter in group.meters),
        *(value for fact in frame.facts for value in fact),
        *([frame.seen] if frame.facts else []),
    ]
    assert [word for word in words if word not in lines] == []
    assert [word for word in words if word not in " ".join(page.split())] == []


def test_a_square_has_a_shape_besides_its_colour() -> None:
    """Who sees no colours counts as well."""
    lines = drawn(VIEWS["twenty"]).splitlines()
    (strip,) = [line for line in lines if "■ ■" in line]
    assert "".join(strip.split("  ")[1].split()) == "■" * 14 + "▆▄▂" + "□□" + "✗"
    page = page_of(VIEWS["twenty"])
    kinds = ("running", "starting", "installing", "booting", "planned", "failed")
    shapes = {
        kind: set(re.findall(rf'<path class="td-{kind}" d="[^"]*" (.*?)/>', page)) for kind in kinds
    }
    assert all(shapes.values())
    assert len({frozenset(each) for each in shapes.values()}) == len(kinds)
    assert 'aria-label="workers-spot: 14 running, 1 starting, 1 installing, 1 booting' in page


@pytest.mark.parametrize("hosts", [2, 50, 51, 200, 201, 1_000, 2_000, 5_000])
def test_each_host_has_a_square_until_there_are_too_many(hosts: int) -> None:
    view = running(hosts, [*[("running", None)] * (hosts - 1), ("failed", "no disk")])
    page = page_of(view)
    runs = re.search(r'<path class="td-running" d="([^"]*)"', page)
    assert runs is not None
    number = sum((int(length) + 2) // 10 for length in re.findall(r"h(\d+)", runs[1]))
    each = 1 if hosts <= 2_000 else 3
    assert number == -(-(hosts - 1) // each)
    assert (f"a square is {each} hosts" in page) == (each > 1)
    assert page.count("l8 8m0 -8l-8 8") == 1
    assert len(page) < 14_000


def test_every_kind_of_host_keeps_a_square() -> None:
    strip = Strip({"running": 996, "booting": 3, "failed": 1}, ())
    shown, each = strip.squares(100)
    assert (dict(shown), each) == ({"running": 100, "booting": 1, "failed": 1}, 10)
    assert Strip({"running": 1}, ()).squares(100) == ([], 1)


@pytest.mark.parametrize("hosts", [1, 20, 1_000])
def test_it_fits_a_terminal_whatever_the_number_of_hosts(hosts: int) -> None:
    states: list[tuple[str, str | None]] = [("running", None)] * (hosts - 1) + [("failed", "why")]
    lines = drawn(running(hosts, states), columns=80, lines=30).splitlines()
    assert len(lines) <= 30
    # What went wrong is never among those that are left out.
    assert any("failed" in line and "i-" in line for line in lines)


@pytest.mark.parametrize("name", ["twenty", "thousand"])
def test_a_view_is_drawn_in_milliseconds(name: str) -> None:
    def least(draw: object) -> float:
        times = []
        for _ in range(5):
            began = time.process_time()
            draw()  # type: ignore[operator]
            times.append(time.process_time() - began)
        return min(times)

    assert least(lambda: page_of(VIEWS[name])) < 0.05
    assert least(lambda: drawn(VIEWS[name])) < 0.05


def test_what_is_below_stays_in_place_while_a_cluster_is_made() -> None:
    planned, one = MAKING, running(20, [("running", None)])
    grown = running(20, [("running", None)] * 20)
    joining = replace(one, steps=VIEWS["attaching"].steps)
    assert (frame_of(joining).ends, frame_of(joining).facts) == ("", ())
    assert frame_of(joining).links
    first = heights_of(replace(planned, notes=()))
    assert all(max(heights_of(view)[0] for view in (one, grown)) <= each for each in first)
    # The rows of hosts are there from the beginning.
    assert [len(frame_of(view).hosts) for view in (planned, one, grown)] == [10, 10, 10]
    assert {frame_of(view).more[:11] for view in (planned, one, grown)} == {"and 11 more"}
    console = Console(width=80, height=50, force_terminal=True, color_system=None)
    steady = Steady()
    heights = [
        len(console.render_lines(steady.show(view)))
        for view in (VIEWS["twenty"], VIEWS["one"], VIEWS["thousand"], VIEWS["one"])
    ]
    assert heights == sorted(heights)
    assert heights[1] == heights[0]


def test_a_terminal_without_unicode_gets_ascii() -> None:
    for view in VIEWS.values():
        assert drawn(view, encoding="ascii").replace("…", "").isascii()
    squares = " ".join("++++++++++++++sib--x")
    assert squares in drawn(VIEWS["twenty"], encoding="ascii")


def test_what_hosts_wrote_is_no_markup_and_lines_are_cut() -> None:
    reason = "[bold]x[/bold] \x1b[2J" + "y" * 200
    view = live_view(status(1, 1, report(1, "failed", reason)), POOLS, now=NOW)
    text = drawn(view, columns=80)
    assert "[bold]x[/bold] \N{REPLACEMENT CHARACTER}[2Jyyy" in text
    assert max(map(len, text.splitlines())) == 80
    assert "y…" not in text
    assert text.count("y") == 200
    assert "\x1b[1;31m✗\x1b[0m failed" in drawn(view, columns=80, color=True)


@pytest.mark.parametrize("is_whole", [False, True])
def test_nothing_of_a_host_is_markup_on_a_page(is_whole: bool) -> None:
    evil = "<script>alert(1)</script> [link=http://evil]here[/link] \x1b[2J\"'" + "y" * 200
    seen = status(1, 1, report(1, "failed", evil))
    link = 'http://x/"<i>'
    view = live_view(seen, POOLS, now=NOW, links=[("dashboard", link)])
    view = replace(view, notes=(f"<b>{evil}",), step=evil, problems=(evil,))
    page = page_of(view, is_whole=is_whole)
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt;") >= 3
    assert "&lt;b&gt;" in page
    assert "\x1b" not in page
    assert not re.findall(r"<(script|b|i|link)\b", page)
    assert re.findall('href="[^"]*"', page) == ['href="http://x/&#34;&lt;i&gt;"']
    assert re.findall(r'\bon\w+="', page) == []
    # Nothing of a reason is cut.
    assert "y" * 200 in page


def test_all_hosts_are_on_a_whole_page_and_fold_after_ten() -> None:
    page = page_of(VIEWS["thousand"], is_whole=True, below="<p>Dask</p>")
    before, after = page.split("<details>", 1)
    assert before.count('"td-c-group"') == 11
    assert "<summary>and 991 more hosts</summary>" in after
    assert after.partition("</details>")[0].count('"td-c-group"') == 992
    assert "<summary>Dask&#39;s own view</summary><p>Dask</p>" in after.replace(
        "Dask's", "Dask&#39;s"
    )
    assert "<details>" not in page_of(VIEWS["thousand"])


def test_a_cluster_that_grows_shows_what_is_waited_for() -> None:
    frame = frame_of(VIEWS["twenty"])
    assert frame.now == (
        "tasks: 56 on workers, 1,291 queued, 2 erred, 12,804 done so far · waiting for 5 hosts"
    )
    spot = frame.groups[1]
    assert (spot.name, spot.count) == ("workers-spot", "18 of 20")
    assert spot.hardware == "spot 15 m6i.xlarge, 3 m5.xlarge"
    states = "14 running, 1 starting, 1 installing, 1 booting, 2 requested, 1 failed"
    assert spot.strip.text == states
    hosts = [(host.cells[0] != "", host.cells[2]) for host in frame.hosts]
    assert hosts == [
        *[(True, "failed"), (True, "booting"), (True, "installing"), (True, "starting")],
        *[(False, "requested")] * 2,
        *[(True, "running")] * 4,
    ]
    assert frame.hosts[0].cells[-1] == NO_WHEEL
    assert frame.problems == (NO_CAPACITY,)


def test_hardware_is_what_has_been_launched_or_what_may_be() -> None:
    assert frame_of(MAKING).groups[1].hardware == "spot m6i.xlarge or m5.xlarge"

    def row(types: str, **launched: int) -> str:
        return GroupRow("workers", 1, 1, "spot", tuple(types), {}, launched=launched).hardware

    assert row("a") == "a"
    assert row("abcd") == "a or 3 others"
    assert row("abcd", b=7) == "b"
    assert row("abcdef", a=1, b=7, c=7, d=2, e=1) == "7 b, 7 c, 2 d, 2 of other types"


def test_prepared_hosts_are_not_waited_for() -> None:
    view = LiveView("etl", "running", groups=(replace(PLANNED[1], states={"prepared": 2}),))
    assert frame_of(view).now == "nothing is waited for"
    states = {"booting": 1, "requested": 1, "running": 3, "leaving": 2, "failed": 1, "preparing": 1}
    view = replace(view, groups=(replace(PLANNED[1], states=states),))
    assert frame_of(view).now == "waiting for 2 hosts"
    assert frame_of(replace(view, steps=MAKING.steps)).now == "waiting for 2 hosts"
    assert frame_of(replace(view, state="failed", steps=VIEWS["failed"].steps)).now == ""
    assert (
        frame_of(replace(view, waits=("no capacity",))).now == "waiting for 2 hosts · no capacity"
    )


def test_a_reason_is_whole_and_takes_no_column_of_others() -> None:
    """Columns are left out, words aren't broken."""
    narrow = drawn(VIEWS["twenty"], columns=80)
    assert "HOST                 GROUP         STATE         FOR     CPU\n" in narrow
    assert f"\n  {NO_WHEEL}\n" in narrow
    assert f"-          -                {NO_WHEEL}\n" in drawn(VIEWS["twenty"], columns=200)
    # One reason of many hosts is read once.
    many = drawn(running(20, [("failed", NO_WHEEL)] * 9), columns=80)
    assert many.count(NO_WHEEL) == 1
    assert many.count("  no wh") == 9


@pytest.mark.parametrize("columns", [30, 38, 60])
@pytest.mark.parametrize("name", ["making", "failed", "one", "thousand"])
def test_a_narrow_terminal_has_state_price_and_steps_on_lines_of_their_own(
    name: str, columns: int
) -> None:
    view = replace(VIEWS[name], name="nightly-of-a-team-with-long-name")
    lines = drawn(view, columns=columns).splitlines()
    assert max(map(len, lines)) <= columns
    frame, shown = frame_of(view), "".join("".join(lines).split())
    words = [frame.state, frame.price, *(step.name for step in frame.steps)]
    words += [frame.bar.text] if frame.bar else []
    words += [
        text for one in frame.groups for each in one.meters for text in (each.label, each.text)
    ]
    assert [word for word in words if "".join(word.split()) not in shown] == []


def test_meters_without_a_place_beside_a_groups_name_are_below_it() -> None:
    lines = [line.rstrip() for line in drawn(VIEWS["one"], columns=38).splitlines()]
    at = lines.index("workers-spot  1 of 1")
    assert lines[at + 1 : at + 4] == [
        "  cpu ━━━━━─ 92 %",
        "  memory ━───── 3.0 of 15.5 GiB",
        "  ■ 1 running   spot m6i.xlarge",
    ]
    assert "  cpu ━━━━━─ 92 %   memory ━───── 3.0 of 15.5 GiB\n" in drawn(VIEWS["one"], columns=60)
    # A bar is shorter or missing before a word is.
    thousand = drawn(VIEWS["thousand"], columns=30)
    assert "  memory 6,741 of 14,946 GiB\n" in thousand
    assert "  memory ━── 6,741 of 14,946 GiB\n" in drawn(VIEWS["thousand"], columns=32)


@pytest.mark.parametrize("columns", [66, 72, 80, 100, 120, 200])
def test_a_fact_is_on_one_line(columns: int) -> None:
    view = VIEWS["thousand"]
    frame, lines = frame_of(view), drawn(view, columns=columns).splitlines()
    facts = [f"{label} {value}" for label, value in frame.facts]
    facts += [*frame.now.split(" · "), *frame.ends.split(" · "), frame.seen]
    assert [each for each in facts if not any(each in line for line in lines)] == []
    assert not any(line.startswith("·") or line.endswith("·") for line in lines)
    narrow = " ".join(drawn(view, columns=30).split())
    assert [each for each in facts if len(each) < 30 and each not in narrow] == []


def test_an_address_is_cut_only_where_a_terminal_opens_the_whole_one() -> None:
    (_, address) = VIEWS["one"].links[1]
    linked = drawn(VIEWS["one"], columns=80, color=True)
    assert f";{address}\x1b\\" in linked
    assert "cloudwatch/home?re…" in linked
    assert address in drawn(VIEWS["one"], columns=80).replace("\n", "")
    assert address in Drawing(VIEWS["one"]).as_text().replace("\n", "")
    windows = Console(
        file=io.StringIO(), force_terminal=True, color_system="windows", width=80, height=50
    )
    windows.legacy_windows = True
    parts = windows.render_lines(Drawing(VIEWS["one"]), pad=False)
    assert address in "".join(part.text for line in parts for part in line)


def test_a_row_without_a_host_steps_back_behind_the_first_of_its_kind() -> None:
    frame = frame_of(MAKING)
    assert [host.is_repeated for host in frame.hosts] == [False, False, *[True] * 8]
    page = page_of(MAKING)
    assert page.count('<tr class="td-again" aria-hidden="true">') == 8
    assert not any(host.is_repeated for host in frame_of(VIEWS["thousand"]).hosts)


def test_a_view_that_is_looked_at_later_has_its_time() -> None:
    at = "2026-11-24 09:30:00 UTC"
    for view in (VIEWS["one"], replace(VIEWS["making"], at=NOW), replace(VIEWS["closed"], at=NOW)):
        assert at in page_of(view)
        assert at not in page_of(view.without_ages)


def test_words_in_a_terminal_have_its_own_colour() -> None:
    """Any other one is hard to read on some background."""
    for view in VIEWS.values():
        colours = re.findall(r"\x1b\[[\d;]*3\d\w([^\x1b]*)", drawn(view, color=True))
        assert [text for text in colours if re.search("[a-z]", text)] == []


def test_bars_show_what_a_groups_workers_use() -> None:
    cpu, memory = frame_of(VIEWS["twenty"]).groups[1].meters
    assert (cpu.label, cpu.text) == ("cpu", "69 %")
    assert cpu.share == pytest.approx(38.8 / 56, abs=0.01)
    assert (memory.label, memory.text) == ("memory", "88.0 of 217 GiB")
    page = page_of(VIEWS["twenty"])
    assert 'role="meter" aria-label="cpu" aria-valuemin="0" aria-valuemax="100"' in page
    # Without a connection to the scheduler nothing is known, and nothing is drawn.
    unknown = live_view(status(1, 1, report(1, "running")), POOLS, now=NOW)
    assert [group.meters for group in frame_of(unknown).groups] == [(), ()]


def test_tasks_are_shown_once_nothing_is_waited_for() -> None:
    assert frame_of(VIEWS["one"]).now == (
        "tasks: 4 on workers, 1,291 queued, 2 erred, 12,804 done so far"
    )
    idle = replace(VIEWS["one"], use=Use())
    assert frame_of(idle).now == "no tasks yet"


@pytest.mark.parametrize(
    ("price", "text"),
    [
        (Price(), ""),
        (Price(planned_hourly_usd=Decimal("3.914")), "about $3.91 an hour"),
        (
            Price(Decimal("0.7899"), Decimal("0.0165"), True, Decimal(1)),
            "$0.79 an hour, $0.0165 so far",
        ),
        (Price(Decimal(12), Decimal(1234), False), "$12.00 an hour, at least $1,234.00 so far"),
    ],
)
def test_a_price_is_known_before_the_launch(price: Price, text: str) -> None:
    assert price_words(price) == text
    assert shown_usd(Decimal(0)) == "$0.00"


def test_a_step_of_minutes_has_its_minutes() -> None:
    long = tuple(
        replace(step, seconds=74.0) if step.name == "scheduler" else step
        for step in steps("scheduler")
    )
    view = replace(MAKING, steps=long)
    frame = frame_of(view)
    assert frame.bar is not None
    assert frame.bar.text == "step 5 of 6: scheduler, 2 min 10 s"
    assert frame.steps[4].time == "1 min 14 s"
    assert "✓ apply 41 s  ✓ start 2 s  ▸ scheduler 1 min 14 s  · workers" in drawn(view)
    assert "✓ apply  ✓ start  ▸ scheduler 1 min 14 s  · workers" in drawn(view, columns=80)


def test_what_ends_a_cluster_is_shown_with_its_time() -> None:
    at = "by 2026-12-24 09:17 UTC"
    busy = VIEWS["one"]
    assert busy.ends == ("after 20 min without work", "2 min after its last client", at)

    def ends(**use: float | None) -> tuple[str, ...]:
        facts = {"idle_timeout_seconds": 1200.0, "no_client_timeout_seconds": None, **use}
        return live_view(status(1, 1), POOLS, now=NOW, run=RUN, use=Use(**facts)).ends  # type: ignore[arg-type]

    assert ends(idle_seconds=240.0) == ("in 16 min without work (idle for 4 min)", at)
    assert ends(idle_seconds=10.0) == ("after 20 min without work", at)
    assert ends(idle_timeout_seconds=None) == (at,)
    ended = Ended("2026-11-24T09:29:00Z", "idle for 20 minutes")
    over = replace(status(0, 0), state="ended", ended=ended)
    view = live_view(over, POOLS, now=NOW, run=RUN)
    assert view.ends == ()
    assert dict(view.facts)["ended"] == "idle for 20 minutes"
    assert "waiting" not in drawn(view)


def test_an_attached_client_sees_threads_and_memory_and_what_the_run_is() -> None:
    hosts = [report(n, "running") for n in (1, 2)] + [replace(report(3, "running"), at="")]
    first, second, third = (host.instance_id for host in hosts)
    workers = [
        JoinedWorker(first, 2, 4 * GIB),
        JoinedWorker(first, 2, 4 * GIB),
        JoinedWorker(second, 4, 15 * GIB),
        # The worker beside the scheduler is on no host of the workers'.
        JoinedWorker("", 1, GIB),
    ]
    view = live_view(status(3, 3, *hosts), POOLS, run=RUN, workers=workers, now=NOW)
    facts = dict(view.facts)
    assert facts["dask"] == "4 workers, 9 threads, 24.0 GiB"
    assert facts["software"] == "Python 3.11, 2 packages, by hash"
    assert facts["limit"] == "2,000 workers"
    rows = {host.cells[0]: host.cells[1:] for host in frame_of(view).hosts}
    assert rows[first] == ("workers-spot", "running", "42 s", "4", "8.0 GiB", "")
    # Since when isn't known of hosts that were there before.
    assert rows[third] == ("workers-spot", "running", "", "", "", "")


def test_groups_are_in_the_clusters_own_order() -> None:
    seen = status(0, 0)
    mixed = replace(seen, groups=dict(reversed(seen.groups.items())))
    assert [group.name for group in live_view(mixed, POOLS, now=NOW).groups] == list(POOLS)


def test_views_that_differ_in_ages_alone_are_the_same() -> None:
    def at(minutes: int, state: str = "running") -> LiveView:
        now = NOW + datetime.timedelta(minutes=minutes)
        price = Price(Decimal(1), Decimal(minutes))
        return live_view(status(1, 1, report(1, state)), POOLS, now=now, run=RUN, price=price)

    assert at(0) != at(1)
    assert at(0).without_ages == at(1).without_ages
    assert at(0, "failed").without_ages != at(0).without_ages
    assert MAKING.without_ages != replace(MAKING, steps=VIEWS["failed"].steps).without_ages


def test_hosts_that_are_gone_are_told_by_events_alone_and_problems_stay_in_sight() -> None:
    killed = report(1, "running").lost()
    left = report(2, "leaving", "idle").lost()
    assert (killed.state, left.state) == ("lost", "left")
    told = "workers: Launch is suspended: the group launches nothing, whatever its number"
    seen = replace(status(1, 1, killed, left, report(3, "running")), problems=(told,))
    view = live_view(seen, POOLS, now=NOW)
    assert {host.instance_id for host in view.hosts} == {
        "i-0f5c590567ad6c9c9",
        report(3, "running").instance_id,
    }
    assert view.problems == (told,)
    assert f"problem: {told}" in " ".join(drawn(view, columns=80).split())
    assert told in page_of(view)


def test_a_scheduler_that_replaced_another_shows_its_number() -> None:
    seen = replace(status(1, 1), scheduler_boot=2, scheduler_since="2026-11-24T09:29:00Z")
    number = "number 2 of this run since 2026-11-24T09:29:00Z"
    assert number in drawn(live_view(seen, POOLS, now=NOW))
    assert "number" not in drawn(live_view(replace(seen, scheduler_boot=1), POOLS, now=NOW))


def test_a_page_in_the_notebooks_text_is_the_drawing() -> None:
    text = Drawing(VIEWS["twenty"]).as_text()
    assert " ".join("■■■■■■■■■■■■■■▆▄▂□□✗") in text
    assert "\x1b" not in text
