"""Single values against their shapes: type, enumeration, size, range, pattern, form of times."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

from botocore.model import Shape

__all__ = ["problem_of_size", "problem_of_text", "problem_of_value"]

_TEXTS = {
    "boolean": re.compile("true|false"),
    "integer": re.compile(r"-?\d+"),
    "long": re.compile(r"-?\d+"),
    "float": re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?"),
    "double": re.compile(r"-?\d+(\.\d+)?([eE][-+]?\d+)?"),
}
_TIMES = {
    "iso8601": re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z"),
    "unixTimestamp": re.compile(r"\d+(\.\d+)?"),
    "rfc822": re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT"),
}
_KINDS: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "long": (int,),
    "float": (int, float),
    "double": (int, float),
    "timestamp": (int, float),
}

#: All characters beyond the basic plane as Java writes them, in UTF-16.
_JAVA_ASTRAL = re.compile(
    r"(\\u[dD]800)?\\u[dD][cC]00-\\u[dD][bB][fF][fF](\\u[dD][fF][fF][fF])?"
    r"|\\u[dD]800-\\u[dD][bB][fF][fF]\\u[dD][cC]00-\\u[dD][fF][fF][fF]"
)


def problem_of_text(shape: Shape, text: str, time_format: str = "iso8601") -> str | None:
    """Return what is wrong with a value that was sent as text, or None."""
    kind = shape.type_name
    if kind == "timestamp":
        form = shape.serialization.get("timestampFormat", time_format)
        return None if _TIMES[form].fullmatch(text) else f"is not a time of the format {form}"
    if kind in _TEXTS:
        if not _TEXTS[kind].fullmatch(text):
            return f"is no {kind}"
        return None if kind == "boolean" else _out_of_range(shape, float(text))
    return _problem_of_string(shape, text) if kind == "string" else None


def problem_of_value(shape: Shape, value: Any) -> str | None:
    """Return what is wrong with a value of JSON, or None."""
    kind = shape.type_name
    allowed = _KINDS.get(kind, (str,))
    if kind == "timestamp" and shape.serialization.get("timestampFormat") == "iso8601":
        allowed = (str,)
    fits: bool = isinstance(value, allowed) and (kind == "boolean" or not isinstance(value, bool))
    if not fits:
        return f"is a {type(value).__name__}, and no {kind}"
    if kind == "string":
        return _problem_of_string(shape, value)
    if kind in ("boolean", "timestamp", "blob"):
        return None
    return _out_of_range(shape, value)


def problem_of_size(shape: Shape, size: int) -> str | None:
    """Return what is wrong with a list's or a map's number of members, or None."""
    least, most = shape.metadata.get("min", 0), shape.metadata.get("max", size)
    return None if least <= size <= most else f"has {size} members, of {least} to {most}"


def _problem_of_string(shape: Shape, text: str) -> str | None:
    values = shape.metadata.get("enum")
    if values:
        return None if text in values else f"is none of {', '.join(sorted(values)[:12])}"
    least, most = shape.metadata.get("min", 0), shape.metadata.get("max", len(text))
    if not least <= len(text) <= most:
        return f"has {len(text)} characters, of {least} to {most}"
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern)(text):
        return f"doesn't match {pattern}"
    return None


def _out_of_range(shape: Shape, number: float) -> str | None:
    least, most = shape.metadata.get("min", number), shape.metadata.get("max", number)
    return None if least <= number <= most else f"is not from {least} to {most}"


@functools.cache
def _matches(pattern: str) -> Callable[[str], Any]:
    """Return the function that checks that a whole text matches a pattern of Java's. Where Python
    has no such pattern, each text matches.
    """
    ours = _JAVA_ASTRAL.sub(r"\\U00010000-\\U0010FFFF", pattern)
    ours = ours.replace(r"\p{L}\p{Z}\p{N}", r"\w\s").replace(r"\p{Cntrl}", r"\x00-\x1f\x7f")
    try:
        return re.compile(ours).fullmatch
    except re.error:
        return lambda _text: True
