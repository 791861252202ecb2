"""``terradask demo``."""

from __future__ import annotations

import click

from terradask.cli._invocation import interruption
from terradask.cli._sim import check_installed

_STYLES = {"title": {"bold": True}, "good": {"fg": "green"}, "dim": {"dim": True}}


@click.command(short_help="Run the main job on the embedded AWS")
def demo() -> None:
    """Run the main job on the embedded AWS, telling what happens, and fail when anything is not as promised.

    Deploys a network, plans a cluster and applies that plan, attaches, computes a group-by over Parquet files in a
    bucket, scales 2 -> 5 -> 2 without losing a result, attaches from a second process, closes, and proves by tag that
    nothing is left. Needs no account. Where AWS_ENDPOINT_URL names an embedded AWS that runs, that one is used.
    """
    check_installed()
    from terradask._demo.embedded import run_demo
    from terradask._demo.story import Story

    with interruption("nothing is left: everything was on the embedded AWS, which has ended"):
        run_demo(Story(click.echo, lambda text, name: click.style(text, **_STYLES[name])))  # type: ignore[arg-type]  # styles are of several types
