"""``terradask demo``."""

from __future__ import annotations

import click


@click.command(short_help="Run the main job on the embedded AWS")
def demo() -> None:
    """Run the main job on the embedded AWS, telling what happens."""
