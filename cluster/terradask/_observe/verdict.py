"""``Verdict``: judge a cluster by its facts, in one line with the next command. No calls.

`problems` finds what is wrong; here the gravest comes first, beside the number of workers.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from terradask._common.naming import counted

Level = Literal["good", "waiting", "trouble", "off"]

#: Kinds of problems, the gravest first. Those from `NOTES` on are notes.
KINDS = (
    # The cluster as a whole.
    *("unreadable", "unfinished", "unowned", "strange", "groups", "documents"),
    *("scheduler", "silent", "unreported"),
    # Launches of hosts: `LaunchProblem.kind`.
    *("denied", "account", "free-plan", "quota", "storage", "key", "addresses"),
    *("reservation", "capacity", "unsupported", "other"),
    # The groups and their hosts.
    *("suspended", "maximum", "tags", "boot"),
    # Notes.
    *("limit", "replaced", "spot", "replaced-hosts", "standby", "ends", "lock"),
    *("versions", "network"),
)
NOTES = KINDS.index("limit")

#: Most problems in a verdict's line; the rest is counted.
_SHOWN = 3


@dataclass(frozen=True)
class Problem:
    """A problem of a cluster, or a note on it.

    Parameters
    ----------
    kind
        One of `KINDS`.
    brief
        Some words, such as ``no capacity in us-east-1a since 02:24``.
    text
        A sentence with what helps; empty where the rest of a status has it.
    command
        The next command; None if no command helps.
    """

    kind: str
    brief: str
    text: str = ""
    command: str | None = None

    @property
    def is_grave(self) -> bool:
        """Whether it keeps the cluster from what was requested."""
        return KINDS.index(self.kind) < NOTES


@dataclass(frozen=True)
class Facts:
    """The facts of one cluster.

    Parameters
    ----------
    cluster
        Its name.
    state
        As in `DeploymentStatus` and `ClusterOverview`.
    wanted
        Number of workers' hosts that its groups are to have.
    running
        Number of those whose Dask workers run.
    booting
        Number of those that exist and neither run nor have failed.
    prepared
        Number of prepared hosts.
    ended
        When and why it ended by itself.
    problems
        Its problems and notes.
    """

    cluster: str
    state: str
    wanted: int = 0
    running: int = 0
    booting: int = 0
    prepared: int = 0
    ended: str | None = None
    problems: tuple[Problem, ...] = ()


@dataclass(frozen=True)
class Verdict:
    """The first line on a cluster, and the next command.

    Parameters
    ----------
    level
        ``good``; ``waiting``: it starts, stops, or hosts boot; ``trouble``; or ``off``: it is
        stopped or has ended.
    text
        One line.
    command
        The next command; None if there is nothing to do.
    problems
        The problems and notes behind it, the gravest first.
    facts
        Its facts, to judge again with more problems.
    """

    level: Level
    text: str
    command: str | None = None
    problems: tuple[Problem, ...] = ()
    facts: Facts | None = field(default=None, repr=False, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output, without facts."""
        return {key: value for key, value in asdict(self).items() if key != "facts"}


#: State -> level, words, next command. ``{workers}`` counts workers.
_STATES: dict[str, tuple[Level, str, str | None]] = {
    "running": ("good", "{workers}", None),
    "starting": ("waiting", "starting, {workers}", "terradask status {name} --watch"),
    "stopping": ("waiting", "stopping: its hosts end", None),
    "stopped": ("off", "stopped", "terradask start {name}"),
    "ended": ("off", "ended by itself", "terradask start {name}"),
    "closing": ("trouble", "its destruction was interrupted", "terradask destroy {name}"),
    "failed": ("trouble", "failed, {workers}", "terradask logs {name} scheduler"),
    "unfinished": ("trouble", "partly deployed or destroyed", "terradask apply {name}"),
    "unreadable": (
        "trouble",
        "a document of it has a format that this terradask can't read",
        "terradask status {name}",
    ),
    "hidden": ("trouble", "AWS refuses to show it to this caller", None),
    "strange": ("trouble", "no cluster can have such a key; find its writer", None),
    "unowned": ("trouble", "resources without a deployed cluster", "terradask sweep"),
    "declared": ("off", "not deployed", "terradask plan {name}"),
}


def judge(facts: Facts) -> Verdict:
    """Return the verdict on a cluster."""
    problems = tuple(sorted(facts.problems, key=lambda each: KINDS.index(each.kind)))
    grave = [each for each in problems if each.is_grave]
    level, words, command = _STATES.get(facts.state, ("trouble", facts.state, None))
    command = command and command.format(name=facts.cluster)
    head = words.format(workers=_workers(facts, is_waiting=not grave))
    if level == "off" and facts.prepared:
        head += f", {facts.prepared:,} prepared"
    if facts.state == "ended" and facts.ended:
        head += f", {facts.ended}"
    if level == "good" and facts.running < facts.wanted:
        level, command = "waiting", f"terradask status {facts.cluster} --watch"
    if grave:
        level = "trouble"
    helps = next((each.command for each in problems if each.command), None)
    if grave or level == "good":
        command = helps or command
    briefs = [each.brief for each in problems]
    if len(briefs) > _SHOWN + 1:
        briefs = [*briefs[:_SHOWN], f"{len(briefs) - _SHOWN} more"]
    joint = ": " if grave and facts.state != "ended" else "; "
    text = joint.join(filter(None, [head, "; ".join(briefs)]))
    return Verdict(level, text, command, problems, facts)


def _workers(facts: Facts, *, is_waiting: bool) -> str:
    if facts.running < facts.wanted:
        text = f"{facts.running:,} of {counted(facts.wanted, 'worker')}"
        return f"{text}, {facts.booting:,} booting" if is_waiting and facts.booting else text
    if not facts.wanted:
        text = "no workers requested"
    else:
        text = f"{counted(facts.wanted, 'worker')} {'runs' if facts.wanted == 1 else 'run'}"
    return f"{text}, {facts.prepared:,} prepared" if facts.prepared else text


def times(number: int) -> str:
    """Return how often something happened: ``once``, ``twice``, ``3 times``."""
    return {1: "once", 2: "twice"}.get(number, f"{number:,} times")


def clock(at: datetime.datetime, now: datetime.datetime) -> str:
    """Return a time of the last or next hours in UTC as ``02:24``, another with its date."""
    is_near = abs(now - at) < datetime.timedelta(hours=20)
    return f"{at.astimezone(datetime.UTC):{'%H:%M' if is_near else '%Y-%m-%d %H:%M'}}"


def texts(problems: Iterable[Problem]) -> tuple[str, ...]:
    """Return the sentences of problems that have one."""
    return tuple(each.text for each in problems if each.text)
