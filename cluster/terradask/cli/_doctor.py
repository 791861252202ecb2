"""``terradask doctor``: what is missing here, and the fix for each."""

from __future__ import annotations

import click

from terradask.cli._invocation import json_option


@click.command(short_help="Check this machine and this account")
@click.option("--fix", is_flag=True, help="Mend what can be mended from here.")
@json_option
def doctor(fix: bool, as_json: bool) -> None:
    """Check Python, Node, Terraform, the provider, credentials and region, and say the fix for each."""
