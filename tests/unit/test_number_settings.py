"""No setting that is a number takes true or false, which pydantic takes for 1 and 0."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin

import pytest
from pydantic import ValidationError

from terradask_stacks.settings import Settings
from terradask_stacks.settings.base import Section

from .settings_files import problems, write

#: Of these, true is a value: one GPU, all workers.
TAKE_IT = {"worker_gpu", "scheduler_gpu", "gpu", "wait_for_workers"}


def models_in(annotation: Any) -> Iterator[type[Section]]:
    """Return the models that a type contains, and those in their settings."""
    if isinstance(annotation, type) and issubclass(annotation, Section):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models_in(field.annotation)
    for part in get_args(annotation):
        yield from models_in(part)


def switched(annotation: Any) -> Iterator[Any]:
    """Return values of a type in which true stands where it takes a number."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if annotation in (int, float):
        yield True
    elif origin is Annotated:
        yield from switched(parts[0])
    elif origin is list:
        yield from ([each] for each in switched(parts[0]))
    elif origin is dict:
        yield from ({"GPU": each} for each in switched(parts[1]))
    else:
        for part in parts:
            yield from switched(part)


SWITCHED = {
    (model, name, str(value)): value
    for model in models_in(Settings)
    for name, field in model.model_fields.items()
    if name not in TAKE_IT
    for value in switched(field.annotation)
}


def test_numbers_of_all_kinds_are_looked_at() -> None:
    found = {(name, value) for _, name, value in SWITCHED}
    assert len(found) > 40
    assert found > {
        ("n_workers", "True"),
        ("n_workers", "[True]"),
        ("resources", "{'GPU': True}"),
        ("hourly_usd", "True"),
    }


@pytest.mark.parametrize(
    ("model", "name", "value"),
    [
        pytest.param(model, name, value, id=f"{model.__name__}-{name}-{text}")
        for (model, name, text), value in SWITCHED.items()
    ],
)
def test_true_is_no_number(model: type[Section], name: str, value: Any) -> None:
    with pytest.raises(ValidationError) as caught:
        # Without a reason, nothing else of a rule is looked at.
        model.model_validate({"reason": "a test", name: value})

    refused = [each for each in caught.value.errors() if each["loc"][0] == name]
    assert {each["type"] for each in refused} == {"terradask"}, refused


def test_the_place_of_a_switch_is_named(tmp_path: Path) -> None:
    (found,) = problems(write(tmp_path, "[cluster]\nworkers_per_host = true\n")).values()
    assert found.where.startswith("cluster.workers_per_host in ")
    assert (found.problem, found.given, found.allowed) == (
        "true is not a number",
        True,
        "a number",
    )
