"""``terradask software``: what of this environment hosts can have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import json_option
from terradask.cli._output import result, result_json, say, table

if TYPE_CHECKING:
    from terradask._software.scan import Scan


@click.group(short_help="Show what of this environment hosts can have")
def software() -> None:
    """Show what of this environment hosts can have."""


@software.command(name="scan", short_help="List packages and where they came from")
@click.option(
    "--architecture",
    type=click.Choice(["x86_64", "arm64"]),
    default="x86_64",
    show_default=True,
    help="The hosts' processor architecture.",
)
@json_option
def scan_(architecture: str, as_json: bool) -> None:
    """List the packages of the environment that terradask runs in, where each came from, and
    whether hosts can have it: taken, dropped (needed on this platform only) or refused (not from
    an index). Those that only the hosts' platform needs are listed as added.

    Asks neither AWS nor an index, and changes nothing.
    """
    from terradask._software.environment import scan_environment

    found = scan_environment(architecture)
    if as_json:
        result_json(found.as_dict())
        return
    result(_table(found))
    _explain(found)


def _table(found: Scan) -> str:
    rows = [[p.name, p.version, p.origin, p.verdict, p.why] for p in found.packages]
    added = [
        [
            a.requirement,
            None,
            None,
            "added" if a.refused is None else "refused",
            "; ".join(filter(None, [f"needed by {', '.join(a.needed_by)}", a.refused])),
        ]
        for a in found.added
    ]
    return table(["package", "version", "origin", "verdict", "why"], rows + added)


def _explain(found: Scan) -> None:
    say(", ".join(f"{count} {verdict}" for verdict, count in found.counts.items()))
    if not found.python_on_hosts:
        from terradask._software.hosts import HOST_PYTHONS

        say(f"hosts have no Python {found.python}: use one of {', '.join(HOST_PYTHONS)}")
    if found.counts["refused"]:
        say(
            "what is refused came from no index, and an index may have another author's package "
            "under its name: publish it to the index that hosts use and install it from there, or "
            "send modules with Client.upload_file"
        )
