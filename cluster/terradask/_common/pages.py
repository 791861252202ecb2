"""HTML from the templates beside this module, in which all text is escaped."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jinja2 import Environment


def html_page(template: str, **facts: Any) -> str:
    """Return a template's HTML. A fact that is None isn't shown."""
    return _environment().get_template(f"{template}.html.j2").render(**facts)


@functools.cache
def _environment() -> Environment:
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    return Environment(
        loader=FileSystemLoader(Path(__file__).with_name("templates")),
        undefined=StrictUndefined,
        autoescape=True,
        finalize=lambda value: "" if value is None else value,
        trim_blocks=True,
    )
