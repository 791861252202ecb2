"""Run the benchmarks and write ``docs/benchmarks.md``."""

from __future__ import annotations

import argparse
import datetime
import sys
from pathlib import Path

from benchmarks import choice, creation, declared, imports, scaling, synthesis
from benchmarks._measure import machine, table

_PARTS = {
    "imports": imports,
    "synthesis": synthesis,
    "choice": choice,
    "creation": creation,
    "declared": declared,
    "scaling": scaling,
}
_PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"

_HEAD = """# Benchmarks

Made by `make bench` on {machine}, {date}; {runs} counted runs of each candidate after a warm-up,
all candidates of a part in turn (A B C A B C …), so that drift of the
machine's speed hits them alike. Seconds are wall-clock. On the embedded AWS: the provider's own waits are real, AWS's are not.
"""


def main() -> int:
    """Run the parts that are asked for; write the page when all were."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", choices=[*_PARTS, []], help="parts to run; all where left out")
    parser.add_argument("--runs", type=int, default=5, help="counted runs of each candidate (default 5)")
    arguments = parser.parse_args()
    chosen = arguments.parts or list(_PARTS)
    sections, kept = [], True
    for name in chosen:
        module = _PARTS[name]
        print(f"{name} …", file=sys.stderr, flush=True)
        rows, verdicts = module.measure(arguments.runs)
        kept = kept and all(verdict.kept for verdict in verdicts)
        sections.append(
            f"## {name.capitalize()}\n\n{(module.__doc__ or '').strip()}\n\n"
            + table(["what", "median", "min", "max", "runs"], [row.cells() for row in rows])
            + "\n\n"
            + table(["line", "measured", "wanted", "kept"], [verdict.cells() for verdict in verdicts])
        )
    head = _HEAD.format(machine=machine(), date=datetime.date.today().isoformat(), runs=arguments.runs)
    page = "\n".join([head, *(section + "\n" for section in sections)])
    print(page)
    if chosen == list(_PARTS):
        _PAGE.write_text(page, encoding="utf-8")
    return 0 if kept else 1


if __name__ == "__main__":
    raise SystemExit(main())
