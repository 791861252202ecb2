"""Convert pydantic's errors to findings that a user can act on."""

from __future__ import annotations

import difflib
import re
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from terradask_stacks.errors import Finding
from terradask_stacks.toml_values import toml_text

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
#: Bound of a type -> its words.
_LIMIT_WORDS = {
    "ge": "{} or more",
    "gt": "more than {}",
    "le": "{} or less",
    "lt": "less than {}",
    "expected": "{}",
    "min_length": "at least {}",
    "max_length": "at most {}",
    "pattern": "what matches {}",
}

#: The end of the names of settings that are durations.
_SECONDS = "_seconds"
_LONG_UNITS = {"second": 1, "minute": 60, "hour": 3_600, "day": 86_400, "week": 604_800}
_UNIT_SECONDS = {"": 1} | {
    written: seconds
    for unit, seconds in _LONG_UNITS.items()
    for written in (unit, f"{unit}s", unit[0])
}
_DURATION = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*")


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the valid name that was probably meant."""

    def plain(text: str) -> str:
        return text.lower().replace("-", "_")

    candidates = {plain(candidate): candidate for candidate in known}
    match = difflib.get_close_matches(plain(name), candidates, n=1, cutoff=0.6)
    return candidates[match[0]] if match else None


def did_you_mean(near: str, given: Any) -> str:
    """Return advice to set the setting that was probably meant; a duration for one of seconds is in
    seconds.
    """
    seconds = seconds_of(given) if near.endswith(_SECONDS) and isinstance(given, str) else None
    return f"did you mean {near}{'' if seconds is None else f' = {_shown(seconds)}'}?"


def seconds_of(text: str) -> float | None:
    """Return the seconds of a number and a unit, ``"20 minutes"`` or ``"2h"``; None if it has
    another form.
    """
    found = _DURATION.fullmatch(text.lower())
    seconds = None if found is None else _UNIT_SECONDS.get(found[2])
    return None if found is None or seconds is None else float(found[1]) * seconds


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
    field = _field_at(model, detail["loc"])
    kind = detail["type"]
    if kind == "terradask":
        found = Finding(
            where=where,
            problem=context["problem"],
            # A model's rule names its values itself; the whole section would hide them.
            given=None
            if context["secret"] or isinstance(detail["input"], (dict, BaseModel))
            else detail["input"],
            allowed=context["allowed"],
            advice=context["advice"] or None,
        )
    elif kind == "extra_forbidden":
        known = _keys_at(model, detail["loc"][:-1])
        near = nearest(str(detail["loc"][-1]), known)
        found = Finding(
            where=where,
            problem="there is no such setting",
            given=detail["input"],
            allowed=", ".join(known),
            advice=did_you_mean(near, detail["input"]) if near else "remove it",
        )
    elif kind == "missing":
        found = _missing(where, str(detail["loc"][-1]), field)
    else:
        found = Finding(
            where=where,
            # Pydantic's own text contains its class.
            problem="Input should be a table" if kind == "model_type" else detail["msg"],
            given=detail["input"],
            allowed=_TYPE_WORDS.get(kind) or _limits(context),
        )
    if field is not None and str(detail["loc"][-1]).endswith(_SECONDS):
        return _with_seconds(found, field, detail["input"])
    return found


def _missing(where: str, name: str, field: FieldInfo | None) -> Finding:
    """Return the finding on a setting that is left out: its description, and an example."""
    description = field.description if field is not None else None
    examples = field.examples if field is not None else None
    return Finding(
        where=where,
        problem="Field required",
        allowed=None if description is None else description.removesuffix("."),
        advice=f"add {name} = {toml_text(examples[0])}, for example" if examples else f"set {name}",
    )


def _with_seconds(found: Finding, field: FieldInfo, given: Any) -> Finding:
    """Return a finding on a setting of seconds with the unit, and with what to write."""
    allowed = found.allowed
    if field.annotation in (int, float) and found.advice is None:
        number = "a whole number" if field.annotation is int else "a number"
        bounds = {
            name: getattr(each, name)
            for each in field.metadata
            for name in _LIMIT_WORDS
            if hasattr(each, name)
        }
        allowed = ", ".join(filter(None, (f"{number} of seconds", _limits(bounds))))
    seconds = seconds_of(given) if isinstance(given, str) else None
    if seconds is not None and _takes(field, seconds):
        advice = f"write {_shown(seconds)}"
    else:
        default = f", {_shown(field.default)}" if field.default else ""
        advice = f"write such a number, or leave it out for the default{default}"
    return replace(found, allowed=allowed, advice=found.advice or advice)


def _takes(field: FieldInfo, value: Any) -> bool:
    from pydantic import TypeAdapter

    try:
        TypeAdapter(field.rebuild_annotation()).validate_python(value)
    except ValidationError:
        return False
    return True


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
    parts = [
        text.format(_shown(context[name])) for name, text in _LIMIT_WORDS.items() if name in context
    ]
    return ", ".join(parts) or None


def _shown(value: Any) -> Any:
    """Return a whole number without a decimal point, which settings of whole numbers take too."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _field_at(model: type[BaseModel], location: Sequence[int | str]) -> FieldInfo | None:
    if not location:
        return None
    return _model_at(model, location[:-1]).model_fields.get(str(location[-1]))


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
