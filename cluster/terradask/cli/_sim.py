"""``terradask sim``: the embedded AWS."""

from __future__ import annotations

import click

from terradask.cli._invocation import json_option
from terradask.cli._output import result, result_json, say


def _simulator() -> None:
    """Say what to install where the simulator's parts are missing."""


@click.group(short_help="Run the embedded AWS")
def sim() -> None:
    """Run the embedded AWS: real Terraform, boto3, TLS and Dask; the machines are local processes."""
