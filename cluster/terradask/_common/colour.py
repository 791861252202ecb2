"""Colours on a terminal, unless the user wants none (https://no-color.org)."""

from __future__ import annotations

import os
from typing import Any

import click


def painted(text: str, **style: Any) -> str:
    """Return a text in a style of `click.style`; as it is if ``NO_COLOR`` is set."""
    return text if os.environ.get("NO_COLOR") else click.style(text, **style)
