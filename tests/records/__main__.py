"""``python -m tests.records FILE…``: replay files of records against the embedded AWS."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from pathlib import Path

from terradask_simulator import Simulator

from .record import RecordError, read
from .replay import Replayer
from .verdict import Replayed, counted


def main(arguments: list[str] | None = None) -> int:
    """Print each case's verdict and differences; 1 if a case isn't as its file tells."""
    parser = argparse.ArgumentParser(prog="python -m tests.records", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("--name", default="", help="only cases whose name has this part")
    parser.add_argument("--count", action="store_true", help="only the counts of each file")
    asked = parser.parse_args(arguments)
    try:
        loaded = {path: read(path) for path in asked.files}
    except RecordError as error:
        print(error, file=sys.stderr)
        return 2
    wrong = False
    with Simulator.start(boot_hosts=False) as simulator:
        replayer = Replayer(simulator)
        for path, records in loaded.items():
            found = []
            for case in records.cases:
                if asked.name not in case.name:
                    continue
                try:
                    differences = [] if case.not_replayed else replayer.differences(case)
                except RecordError as error:
                    wrong = True
                    print(f"can't be asked\n    {error}")
                    continue
                found.append(Replayed(case, differences))
                wrong = wrong or bool(found[-1].untrue)
                if not asked.count:
                    print("\n".join(_shown(found[-1])))
            print(f"{path}: {counted([one.verdict for one in found]) or 'no case'}")
        replayer.close()
    return 1 if wrong else 0


def _shown(one: Replayed) -> Iterator[str]:
    as_told = ", as told" if one.case.differs and one.differences else ""
    yield f"{one.verdict}{as_told}: {one.case.name}"
    if one.case.not_replayed:
        yield f"    {one.case.not_replayed}"
    for difference in one.differences:
        yield f"    {'' if difference in one.read else '(unread) '}{difference}"
    yield from (f"    {line}" for line in one.untrue if "remove" in line)


if __name__ == "__main__":
    sys.exit(main())
