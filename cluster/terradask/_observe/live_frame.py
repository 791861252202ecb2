"""``Frame``: the words, bars, squares and tables of a live view, which the renderers draw. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from terradask._common.clock import age_text, duration
from terradask._common.dollars import shown_usd
from terradask._common.naming import counted
from terradask._observe.live_view import GroupRow, HostRow, LiveView, Price, Use, gib_text
from terradask._observe.making import CUT_SHORT, Step, share_of
from terradask._observe.verdict import Verdict
from terradask_host.documents import plain_text
from terradask_host.words import cluster_word, count_hosts, host_word

#: Meaning of a square or a word; each has a shape and a colour.
Kind = Literal[
    "running", "starting", "installing", "booting", "coming", "planned", "leaving", "failed"
]

_KINDS: Mapping[str, Kind] = {
    "running": "running",
    "starting": "starting",
    "waiting": "starting",
    "environment": "installing",
    "booting": "booting",
    "launched": "booting",
    "planned": "planned",
    "requested": "planned",
    "prepared": "planned",
    "leaving": "leaving",
    "failed": "failed",
    "lost": "failed",
}
#: Hosts that are nearer to running come first, so that a strip fills like a bar.
_ORDER: tuple[Kind, ...] = get_args(Kind)
#: State of a cluster -> its kind. Others end it in order.
_STATE_KINDS: Mapping[str, Kind] = {
    "running": "running",
    "connecting": "coming",
    "making": "coming",
    "starting": "coming",
    "attaching": "coming",
    "failed": "failed",
    "interrupted": "failed",
    "ended": "failed",
    "unreachable": "failed",
}
_STEP_KINDS: Mapping[str, Kind] = {
    "done": "running",
    "now": "coming",
    "failed": "failed",
    "interrupted": "failed",
    "next": "planned",
}
#: State of tasks -> its word.
_TASKS = {
    "tasks_processing": "on workers",
    "tasks_queued": "queued",
    "tasks_waiting": "waiting for others",
    "tasks_no_worker": "without a fitting worker",
    "tasks_in_memory": "in memory",
    "tasks_erred": "erred",
}
#: States of hosts without a report.
_SILENT = ("launched", "requested", "planned")
#: Hosts of these kinds and states aren't waited for.
_SETTLED = frozenset({"running", "leaving", "failed", "prepared", "preparing"})
#: A table of hosts folds after so many.
FOLD = 10
#: Stands between facts of a line.
BETWEEN = " · "


@dataclass(frozen=True)
class Meter:
    """A bar: its label, its filled part (None: unknown), and the same as text."""

    label: str
    share: float | None
    text: str


@dataclass(frozen=True)
class Strip:
    """The hosts of a group as squares."""

    counts: Mapping[Kind, int]
    #: Kind and text of each state: ``4 running``.
    legend: tuple[tuple[Kind, str], ...]

    def squares(self, most: int) -> tuple[list[tuple[Kind, int]], int]:
        """Return at most about so many squares by kind, and the number of hosts of each; a kind
        with a host has a square. None for a single host, whose words are enough.
        """
        total = sum(self.counts.values())
        if total <= 1:
            return [], 1
        each = max(1, -(-total // most))
        shown = [(kind, -(-self.counts[kind] // each)) for kind in _ORDER if self.counts.get(kind)]
        return shown, each

    @property
    def text(self) -> str:
        """The states with their numbers."""
        return ", ".join(text for _, text in self.legend)


@dataclass(frozen=True)
class GroupLine:
    """A group of hosts."""

    name: str
    count: str
    hardware: str
    strip: Strip
    meters: tuple[Meter, ...]


@dataclass(frozen=True)
class HostLine:
    """A row of the table of hosts: its kind, and its cells under `HOST_HEADS`."""

    kind: Kind
    cells: tuple[str, ...]
    #: Whether it only keeps the place of a host that there is another such row for.
    is_repeated: bool = False


HOST_HEADS = ("host", "group", "state", "for", "cpu", "memory", "reason")


@dataclass(frozen=True)
class StepLine:
    """A step of making the cluster."""

    kind: Kind
    name: str
    time: str
    #: Its state in a word.
    word: str


@dataclass(frozen=True)
class Frame:
    """All that is shown of a cluster, in the order of its fields; text without control
    characters.
    """

    name: str
    state: str
    kind: Kind
    age: str
    price: str
    #: The progress of making it; None once it is there.
    bar: Meter | None
    steps: tuple[StepLine, ...]
    #: The present: the step of making it, or its tasks; and what is waited for.
    now: str
    ends: str
    #: Its gravest problem, with the next command.
    trouble: str
    problems: tuple[str, ...]
    notes: tuple[str, ...]
    groups: tuple[GroupLine, ...]
    hosts: tuple[HostLine, ...]
    #: The hosts that the table leaves out, and their number.
    more: str
    facts: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    #: The time of all this, for those who look at it later.
    seen: str
    #: The only line of a closed cluster.
    last: str | None

    @property
    def summary(self) -> str:
        """The cluster in one line."""
        parts = [self.state + (f" for {self.age}" if self.age else ""), self.price]
        if self.bar is not None:
            parts.append(self.bar.text)
        parts += [f"{each.name} {each.strip.text}" for each in self.groups]
        return f"{self.name}: {'; '.join(filter(None, parts))}"


def frame_of(view: LiveView, most_hosts: int | None = FOLD) -> Frame:
    """Return what is shown of a view, with at most so many hosts in the table; None: all."""
    hosts = _with_silent(view)
    most = len(hosts) if most_hosts is None else most_hosts
    hidden = Counter(host.state for host in hosts[most:])
    return Frame(
        _line(view.name),
        _line(cluster_word(view.state)),
        _STATE_KINDS.get(view.state, "leaving"),
        "" if view.seconds is None else age_text(view.seconds),
        # A planned price misleads about a creation that ended early.
        "" if view.state in CUT_SHORT else price_words(view.price or Price()),
        _bar(view.steps),
        tuple(map(_step, view.steps)),
        _line(_now(view)),
        # Bar and steps have the place of these and the facts.
        _line(f"ends {BETWEEN.join(view.ends)}") if view.ends and not view.steps else "",
        _line(_trouble(view.verdict)),
        tuple(map(_line, view.problems)),
        tuple(map(_line, view.notes)),
        # A group that may take another's hosts is shown once it has some.
        tuple(_group(each) for each in view.groups if each.desired or each.states),
        tuple(_rows(hosts[:most])),
        f"and {hidden.total():,} more: {_counts(hidden)}" if hidden else "",
        () if view.steps else tuple((_line(label), _line(value)) for label, value in view.facts),
        # An address of another scheme could run code in the page.
        tuple(
            (_line(label), _line(address))
            for label, address in view.links
            if address.startswith(("https://", "http://"))
        ),
        "" if view.at is None else f"{view.at:%Y-%m-%d %H:%M:%S} UTC",
        None if view.last is None else _line(view.last),
    )


def _with_silent(view: LiveView) -> tuple[HostRow, ...]:
    """Return the hosts with a row for each that hasn't reported yet, before the running ones: the
    table has its final height from the beginning.
    """
    if view.state in CUT_SHORT:
        return view.hosts
    seen = Counter((host.group, host.state) for host in view.hosts)
    silent = [
        HostRow("", group.name, state)
        for group in view.groups
        for state in _SILENT
        for _ in range(group.states.get(state, 0) - seen[group.name, state])
    ]
    first = next((at for at, host in enumerate(view.hosts) if host.state == "running"), None)
    at = len(view.hosts) if first is None else first
    return (*view.hosts[:at], *silent, *view.hosts[at:])


# ---- words ---------------------------------------------------------------------------------------


def _line(text: str) -> str:
    return " ".join(plain_text(text).split())


def price_words(price: Price) -> str:
    """Return a price: ``$0.79 an hour, $0.16 so far``; empty if unknown."""
    parts = []
    if price.hourly_usd is not None:
        parts.append(f"{shown_usd(price.hourly_usd)} an hour")
    elif price.planned_hourly_usd is not None:
        parts.append(f"about {shown_usd(price.planned_hourly_usd)} an hour")
    if price.spent_usd is not None:
        parts.append(f"{'' if price.is_whole else 'at least '}{shown_usd(price.spent_usd)} so far")
    return ", ".join(parts)


def _bar(steps: Sequence[Step]) -> Meter | None:
    if not steps:
        return None
    at, step = next(
        (
            (n, each)
            for n, each in enumerate(steps, 1)
            if not each.is_over or each.state in CUT_SHORT
        ),
        (len(steps), steps[-1]),
    )
    spent = sum(each.seconds or 0 for each in steps)
    detail = f", {step.detail}" if step.detail else ""
    failed = f" {step.state}" if step.state in CUT_SHORT else ""
    text = f"step {at} of {len(steps)}: {step.name}{failed}{detail}, {age_text(spent)}"
    return Meter("progress", share_of(steps), _line(text))


def _step(step: Step) -> StepLine:
    time = "" if step.seconds is None else age_text(step.seconds)
    word = {"now": "in progress", "next": "to do"}.get(step.state, step.state)
    return StepLine(_STEP_KINDS[step.state], step.name, time, word)


def _now(view: LiveView) -> str:
    step = None if view.step is None else view.step.removeprefix(f"{view.name}: ")
    coming = sum(
        number
        for group in view.groups
        for state, number in group.states.items()
        if not {_kind(state), state} & _SETTLED
    )
    # A step has its own words.
    is_waited_for = coming and not step and view.state not in CUT_SHORT
    waits = [f"waiting for {counted(coming, 'host')}"] if is_waited_for else []
    parts = [step or ("" if view.steps else _tasks(view.use)), *waits, *view.waits]
    if any(parts) or view.steps or not view.groups:
        return BETWEEN.join(filter(None, parts))
    return "nothing is waited for"


def _tasks(use: Use | None) -> str:
    if use is None:
        return ""
    tasks = [f"{use.tasks[name]:,} {word}" for name, word in _TASKS.items() if use.tasks.get(name)]
    done = [f"{use.done:,} done so far"] if use.done else []
    return f"tasks: {', '.join([*tasks, *done])}" if tasks or done else "no tasks yet"


def _trouble(verdict: Verdict | None) -> str:
    if verdict is None or verdict.level != "trouble":
        return ""
    return verdict.text + (f"; next: {verdict.command}" if verdict.command else "")


def _counts(states: Mapping[str, int]) -> str:
    return _line(", ".join(f"{number:,} {word}" for word, number in count_hosts(states).items()))


def _kind(state: str) -> Kind:
    return _KINDS.get(state, "coming")


def _group(group: GroupRow) -> GroupLine:
    counts: Counter[Kind] = Counter()
    words: Counter[tuple[Kind, str]] = Counter()
    for state, number in group.states.items():
        counts[_kind(state)] += number
        words[_kind(state), host_word(state)] += number
    states = sorted(words.items(), key=lambda each: _ORDER.index(each[0][0]))
    legend = tuple((kind, _line(f"{number:,} {word}")) for (kind, word), number in states)
    return GroupLine(
        _line(group.name),
        f"{group.instances:,} of {group.desired:,}",
        _line(f"{group.market} {group.hardware}"),
        Strip(counts, legend),
        _meters(group),
    )


def _meters(group: GroupRow) -> tuple[Meter, ...]:
    if not group.threads:
        return ()
    cpu = _share(group.busy_threads, group.threads)
    limit, used = group.memory_bytes, group.used_bytes
    return (
        Meter("cpu", cpu, "" if cpu is None else f"{100 * cpu:.0f} %"),
        Meter("memory", _share(used, limit), _used_of(used, limit)),
    )


def _share(used: float | None, whole: float | None) -> float | None:
    return None if used is None or not whole else min(used / whole, 1.0)


def _percent_of(share: float | None, whole: str) -> str:
    return whole if share is None else f"{100 * share:.0f} % of {whole}"


def _used_of(used: float | None, limit: int | None) -> str:
    whole = gib_text(limit) if limit else ""
    if used is None:
        return f"{whole} GiB" if whole else ""
    return f"{gib_text(used)} of {whole} GiB" if whole else f"{gib_text(used)} GiB"


def _rows(hosts: Iterable[HostRow]) -> Iterator[HostLine]:
    silent: set[tuple[str, str]] = set()
    for host in hosts:
        row = host.group, host.state
        yield _host(host, is_repeated=not host.instance_id and row in silent)
        if not host.instance_id:
            silent.add(row)


def _host(host: HostRow, *, is_repeated: bool) -> HostLine:
    cpu = _share(host.busy_threads, host.threads)
    return HostLine(
        _kind(host.state),
        (
            _line(host.instance_id),
            _line(host.group),
            _line(host_word(host.state)),
            "" if host.seconds is None else duration(host.seconds),
            "" if not host.threads else _percent_of(cpu, f"{host.threads:,}"),
            _used_of(host.used_bytes, host.memory_bytes) if host.threads else "",
            _line(host.reason or ""),
        ),
        is_repeated,
    )
