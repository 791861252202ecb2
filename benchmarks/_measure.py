"""Run commands in turn, time them, and write a table."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field


class NotMeasured(Exception):
    """Something that a part needs is missing here; the text names it."""


@dataclass
class Row:
    """One figure: seconds (or a count) of each run; or why there is none."""

    name: str
    runs: list[float] = field(default_factory=list)
    unit: str = "s"
    said: str = ""
    n: int | None = None
    """The number of workers, of a figure that is measured at several: a column."""

    @property
    def median(self) -> float:
        """The median of the runs."""
        return statistics.median(self.runs)

    def cells(self) -> list[str]:
        """Return the row as Markdown cells."""
        if not self.runs:
            return [self.name, self.said, "0"]
        form = "{:.0f}" if self.unit != "s" else "{:.2f}"
        low, mid, high = (form.format(v) for v in (min(self.runs), self.median, max(self.runs)))
        spread = f" ({low}-{high})" if len(self.runs) > 1 else ""
        return [self.name, f"{mid} {self.unit}{spread}", str(len(self.runs))]


@dataclass
class Verdict:
    """A figure made of medians, and its limit."""

    name: str
    value: float
    limit: float
    unit: str = ""

    @property
    def kept(self) -> bool:
        """Whether the figure is within its limit."""
        return self.value <= self.limit

    def cells(self) -> list[str]:
        """Return the verdict as Markdown cells."""
        return [
            self.name,
            f"{self.value:.2f}{self.unit}",
            f"<= {self.limit:g}{self.unit}{'' if self.kept else ' **missed**'}",
        ]


def in_turn(runs: int, **candidates: Callable[[], float]) -> dict[str, Row]:
    """Call the candidates in turn, A B C A B C …, so that changes of the machine's speed affect all
    alike.

    The first round warms up and isn't counted.
    """
    rows = {name: Row(name) for name in candidates}
    for number in range(runs + 1):
        for name, candidate in candidates.items():
            value = candidate()
            print(
                f"  {'warm-up' if number == 0 else f'run {number}'}: {name} {value:.2f}",
                file=sys.stderr,
                flush=True,
            )
            if number:
                rows[name].runs.append(value)
    return rows


def timed(
    command: Sequence[str], env: Mapping[str, str] | None = None, cwd: str | None = None
) -> float:
    """Run a command and return how long it took, in seconds."""
    started = time.perf_counter()
    subprocess.run(
        command, check=True, env=env, cwd=cwd, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    return time.perf_counter() - started


def seconds_of(
    code: str, env: Mapping[str, str] | None = None, *, python: str = sys.executable
) -> float:
    """Run Python code in a fresh process; it prints its figure as the last line."""
    done = subprocess.run(
        [python, "-c", code], check=False, env=env, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(f"a benchmark's process failed:\n{done.stderr}")
    return float(json.loads(done.stdout.strip().splitlines()[-1]))


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("|" + "".join(f" {cell} |" if cell else " |" for cell in row) for row in lines)


def figures(rows: Sequence[Row]) -> str:
    """Return the tables of a part's figures: those by the number of workers have a column for each,
    and single runs leave out the columns that they don't need.
    """
    tables, single = [], [row for row in rows if row.n is None]
    cells = [row.cells() for row in single]
    if all(len(row.runs) == 1 for row in single):
        tables.append(
            table(
                ["what", "one run"], [[each[0], each[1].removesuffix(" calls")] for each in cells]
            )
        )
    else:
        counts = {each[2] for each in cells}
        of = f" of {min(counts)}" if len(counts) == 1 else ""
        head = ["what", f"median (range){of}", "runs"]
        keep = 2 if of else 3
        tables.append(table(head[:keep], [each[:keep] for each in cells]))
    by_n: dict[str, dict[int, str]] = {}
    for row in rows:
        if row.n is not None:
            by_n.setdefault(row.name, {})[row.n] = row.cells()[1].removesuffix(" calls")
    columns = sorted({n for found in by_n.values() for n in found})
    tables.append(
        table(
            ["one run, by n", *(f"{n:,}" for n in columns)],
            [[name, *(found.get(n, "") for n in columns)] for name, found in by_n.items()],
        )
    )
    return "\n\n".join(each for each, of in zip(tables, (single, by_n), strict=True) if of)


def machine() -> str:
    """Describe the machine, and how busy it was."""
    load = f"load {os.getloadavg()[2]:.1f}"
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python "
        f"{platform.python_version()}, {load}"
    )
