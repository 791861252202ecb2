"""A choice of instance types, told to people."""

from __future__ import annotations

from typing import TYPE_CHECKING

from terradask_stacks.hardware.quantities import bytes_text, memory_text

if TYPE_CHECKING:
    from terradask._instance_types.choice import Choice, Chosen


def explain(choice: Choice) -> str:
    """Return a choice as several lines of plain text: what was asked, the types in order, what was left out, and why."""
    ask = choice.ask
    tolerance = f" (within 10 %: {memory_text(ask.memory.within_a_tenth())})" if ask.memory is not None and not ask.memory.is_any else ""
    count = len(choice.types)
    lines = [
        f"{ask.whose}: {ask.describe()}{tolerance}, {choice.architecture}, in {choice.where}",
        f"rule: {choice.rule}",
        "1 type:" if count == 1 else f"{count} types, in the order in which they are tried:",
        *_table(choice.types),
    ]
    if choice.left_out:
        lines += ["left out:", *(f"  {one.count:>5}  {one.reason} ({_examples(one.examples, one.count)})" for one in choice.left_out)]
    return "\n".join([*lines, *(f"note: {note}" for note in choice.notes)])


def _table(types: tuple[Chosen, ...]) -> list[str]:
    rows = [_row(place, one) for place, one in enumerate(types, 1)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _row(place: int, one: Chosen) -> tuple[str, ...]:
    gpus = one.type.gpus
    return (
        f"{place:>2}",
        one.type.name,
        f"{one.type.vcpus} cores" if one.type.vcpus > 1 else "1 core",
        bytes_text(one.type.memory_mib << 20),
        f"{gpus.count} x {gpus.name}" if gpus is not None else "",
        f"${one.usd_per_hour:.4f} an hour" if one.usd_per_hour is not None else "",
        one.reason,
    )


def _examples(names: tuple[str, ...], count: int) -> str:
    return ", ".join([*names, *(["…"] if count > len(names) else [])])
