"""The tables of `docs/simulator.md` on records of real AWS, from `tests/records/data`."""

from __future__ import annotations

from collections import Counter, defaultdict

from tests.records.record import Case, files, read
from tests.records.verdict import Verdict, told

_COLUMNS: tuple[Verdict, ...] = ("agrees", "agrees but for unread fields", "differs")


def records_markdown() -> str:
    """Return how many cases of each service agree, and each one that doesn't, with the reason."""
    cases: dict[str, list[Case]] = defaultdict(list)
    for path in files("*.json"):
        cases[path.stem.partition("-")[0]] += read(path).cases
    rows = [_row(f"`{service}`", each) for service, each in sorted(cases.items())]
    total = _row("**all**", [case for each in cases.values() for case in each])
    head = [
        "| service | cases | agree | agree but for fields that nobody reads | differ |",
        "| --- | --- | --- | --- | --- |",
    ]
    names: dict[tuple[str, str], list[str]] = defaultdict(list)
    for service, each in sorted(cases.items()):
        for case in each:
            if case.differs:
                names[service, case.differs].append(case.name)
    differing = [
        f"| `{service}` | {_cell('; '.join(of))} | {_cell(differs)} |"
        for (service, differs), of in names.items()
    ]
    table = ["| service | case | difference |", "| --- | --- | --- |", *differing]
    shown = ["", "What stays different:", "", *table] if differing else []
    return "\n".join([*head, *rows, total, *shown])


def _row(name: str, cases: list[Case]) -> str:
    counts = Counter(map(told, cases))
    return f"| {name} | {len(cases)} | {' | '.join(str(counts[each]) for each in _COLUMNS)} |"


def _cell(text: str) -> str:
    return text.replace("|", "&#124;").replace("\n", " ")
