"""Convert pydantic's errors to findings that a user can act on."""

from __future__ import annotations

import difflib
import typing
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from terradask_stacks.errors import Finding

_TYPE_WORDS = {
    "string_type": "a text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
}


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the valid name that was probably meant."""
    plain = name.lower().replace("-", "_")
    candidates = {candidate.lower(): candidate for candidate in known}
    match = difflib.get_close_matches(plain, candidates, n=1, cutoff=0.6)
    return candidates[match[0]] if match else None


def findings_of(
    error: ValidationError,
    *,
    model: type[BaseModel],
    origins: Mapping[str, str],
) -> list[Finding]:
    """Turn pydantic's error into findings, one for each place. Unknown keys are compared with the
    model's fields; `origins` has the place of each ``section.key``.
    """
    found: dict[str, Finding] = {}
    for detail in error.errors(include_url=False):
        finding = _finding(detail, model, origins)
        found.setdefault(finding.where, finding)
    return list(found.values())


def _finding(detail: ErrorDetails, model: type[BaseModel], origins: Mapping[str, str]) -> Finding:
    context = detail.get("ctx", {})
    where = place_of(detail["loc"], origins)
    kind = detail["type"]
    if kind == "terradask":
        return Finding(
            where=where,
            problem=context["problem"],
            # A model's rule names its values itself; the whole section would hide them.
            given=None
            if context["secret"] or isinstance(detail["input"], (dict, BaseModel))
            else detail["input"],
            allowed=context["allowed"],
            advice=context["advice"] or None,
        )
    if kind == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        near = nearest(str(detail["loc"][-1]), known)
        return Finding(
            where=where,
            problem="there is no such setting",
            given=detail["input"],
            allowed=", ".join(known),
            advice=f"did you mean {near}?" if near else "remove it",
        )
    return Finding(
        where=where,
        # Pydantic's own text contains its class.
        problem="Input should be a table" if kind == "model_type" else detail["msg"],
        given=None if kind == "missing" else detail["input"],
        allowed=_described(model, detail["loc"])
        if kind == "missing"
        else _TYPE_WORDS.get(kind) or _limits(context),
    )


def _described(model: type[BaseModel], location: Sequence[int | str]) -> str | None:
    """Return a setting's description from its field."""
    field = _model_at(model, location[:-1]).model_fields.get(str(location[-1]))
    return (
        None if field is None or field.description is None else field.description.removesuffix(".")
    )


def place_of(location: Sequence[int | str], origins: Mapping[str, str]) -> str:
    """Return a value's origin: its own, or that of the nearest known table."""
    if not location:
        return "settings"
    names = [str(part) for part in location if part != "[key]"]
    for length in range(len(names), 0, -1):
        origin = origins.get(".".join(names[:length]))
        if origin is not None:
            rest = ".".join(names[length:])
            return f"{origin}, at {rest}" if rest else origin
    return ".".join(names)


def _limits(context: Mapping[str, Any]) -> str | None:
    words = {
        "ge": "{} or more",
        "gt": "more than {}",
        "le": "{} or less",
        "lt": "less than {}",
        "expected": "{}",
        "min_length": "at least {}",
        "pattern": "what matches {}",
    }
    parts = [text.format(context[name]) for name, text in words.items() if name in context]
    return ", ".join(parts) or None


def _keys_at(model: type[BaseModel], location: Sequence[int | str]) -> list[str]:
    return list(_model_at(model, location).model_fields)


def _model_at(model: type[BaseModel], location: Sequence[int | str]) -> type[BaseModel]:
    current: type[BaseModel] = model
    for part in location:
        field = current.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        current = inner or current
    return current


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in typing.get_args(annotation) if (found := _model_in(part))), None)
