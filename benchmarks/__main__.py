"""Run the benchmarks and write ``docs/benchmarks.md``."""

from __future__ import annotations

import argparse
import datetime
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from benchmarks import (
    boot,
    choice,
    creation,
    declared,
    edits,
    environments,
    idle,
    imports,
    install,
    launch,
    line,
    metrics,
    peer,
    scaling,
    software,
    synthesis,
)
from benchmarks._measure import NotMeasured, figures, machine, table

_PARTS = {
    "install": install,
    "imports": imports,
    "software": software,
    "environments": environments,
    "edits": edits,
    "synthesis": synthesis,
    "choice": choice,
    "creation": creation,
    "declared": declared,
    "scaling": scaling,
    "launch": launch,
    "idle": idle,
    "line": line,
    "metrics": metrics,
    "peer": peer,
    "boot": boot,
}
_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

_HEAD = """# Benchmarks

`make bench` makes these figures: a warm-up, then the counted runs of all candidates of a part in
turn. Seconds are wall-clock time. Everything runs on the embedded AWS: the provider's own waits are
real, AWS's are not. `python -m benchmarks PART` updates one part, whose first line has the machine,
its load and the day.
"""


def main() -> int:
    """Run the requested parts, and update them in the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "parts", nargs="*", choices=[*_PARTS, []], help="parts to run; by default all"
    )
    parser.add_argument(
        "--runs", type=int, default=5, help="counted runs of each candidate (default 5)"
    )
    arguments = parser.parse_args()
    kept = True
    for name in arguments.parts or list(_PARTS):
        print(f"{name} …", file=sys.stderr, flush=True)
        section, held = _section(name, _PARTS[name], arguments.runs)
        print(section, flush=True)
        kept = kept and held
        # Read again: another part may have been measured meanwhile.
        sections = _sections(_PAGE.read_text(encoding="utf-8")) | {name: section}
        _PAGE.write_text(
            "\n".join([_HEAD, *(sections[one] for one in _PARTS if one in sections)]),
            encoding="utf-8",
        )
    return 0 if kept else 1


def _section(name: str, module: ModuleType, runs: int) -> tuple[str, bool]:
    """Measure a part; return its section of the page, and whether its figures are within their
    limits.
    """
    made = textwrap.fill(f"{machine()}, {datetime.date.today().isoformat()}.", 100)
    head = f"## {name.capitalize()}\n\n{(module.__doc__ or '').strip()}\n\n{made}\n\n"
    try:
        rows, verdicts = module.measure(runs)
    except NotMeasured as reason:
        return f"{head}Not measured: {reason}\n", True
    lines = table(["criterion", "measured", "limit"], [verdict.cells() for verdict in verdicts])
    shown = getattr(module, "figures", figures)(rows)
    return f"{head}{shown}\n\n{lines}\n", all(verdict.kept for verdict in verdicts)


def _sections(page: str) -> dict[str, str]:
    """Return the page's sections by the names of their parts."""
    found = re.split(r"^## (\w+)$", page, flags=re.MULTILINE)[1:]
    return {
        title.lower(): f"## {title}{text.rstrip()}\n"
        for title, text in zip(found[::2], found[1::2], strict=True)
    }


if __name__ == "__main__":
    raise SystemExit(main())
