"""``terradask demo``: run the main job on the embedded AWS, with progress."""

from __future__ import annotations

import sys

import click

from terradask.cli._invocation import interruption
from terradask.cli._sim import check_installed


@click.command(short_help="Run the main job on the embedded AWS")
def demo() -> None:
    """Run the main job on the embedded AWS, show each step, and fail if a result differs from what
    is expected.

    Deploys a network, plans a cluster and applies that plan, attaches, computes a group-by over
    Parquet files in a bucket, scales 2 -> 5 -> 2 without losing a result, attaches from a second
    process, closes, and checks that no tagged resource remains. Needs no account. If
    AWS_ENDPOINT_URL names a running embedded AWS, it uses that one.
    """
    check_installed()
    from terradask_simulator.demo.main_job import DemoPrinter, run_demo

    with interruption("no resource remains: the embedded AWS has ended"):
        if not sys.stdout.isatty():
            run_demo(DemoPrinter(click.echo))
            return
        from rich.console import Console
        from rich.text import Text

        console = Console(highlight=False)
        with console.status("", spinner="dots") as status:

            def write(line: str) -> None:
                console.print(Text.from_ansi(line), soft_wrap=True)

            run_demo(DemoPrinter(write, status.update))
