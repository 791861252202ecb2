"""Every public name is found from ``help(terradask)``, three steps away at most."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import pydoc
import re
from types import ModuleType
from typing import Any

import pytest

import terradask

from .public_surface import docs_page, members_of

MODULES = sorted(set(dir(terradask)) - set(terradask.__all__))
EXPORTED = sorted(set(terradask.__all__) - {"__version__"})


def _words(text: str | None) -> set[str]:
    return set(re.findall(r"\w+", text or ""))


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"terradask.{name}")


def _exports(module: ModuleType) -> list[str]:
    listed = getattr(module, "__all__", dir(module))
    return [name for name in listed if getattr(module, name).__module__ != "builtins"]


def test_the_first_step_names_all_that_terradask_has() -> None:
    assert set(dir(terradask)) <= _words(terradask.__doc__)
    assert {"errors", "cost", "policy"} <= set(MODULES)
    assert "docs" in _words(terradask.__doc__)
    # The lines fit a terminal.
    assert max(map(len, (terradask.__doc__ or "").splitlines())) <= 100


@pytest.mark.parametrize("name", ["cost", "errors", "policy"])
def test_the_second_step_names_all_that_a_module_has(name: str) -> None:
    module = getattr(terradask, name)
    assert set(_exports(module)) <= _words(module.__doc__)


@pytest.mark.parametrize("name", EXPORTED)
def test_the_second_step_shows_all_that_a_class_or_function_has(name: str) -> None:
    entry = getattr(terradask, name)
    shown = pydoc.plain(pydoc.render_doc(entry))
    assert set(_members(entry)) <= _words(shown)
    if inspect.isfunction(entry):
        named = inspect.signature(entry).parameters.values()
        # One set of positional arguments is taken only to be refused.
        assert {p.name for p in named if p.annotation != "Never"} <= _words(entry.__doc__)
    # Fields have no help of their own.
    if dataclasses.is_dataclass(entry):
        fields = {each.name for each in dataclasses.fields(entry) if each.name in _members(entry)}
        assert fields <= _words(entry.__doc__)


@pytest.mark.parametrize("name", ["Cluster", "Workspace", "Deployment"])
def test_the_large_classes_list_their_members_by_topic(name: str) -> None:
    entry = getattr(terradask, name)
    text = inspect.cleandoc(entry.__doc__).partition("Methods\n---")[2]
    listed = re.findall(r"`(\w+)`", re.split(r"\n\w+\n---", text)[0])
    assert len(listed) == len(set(listed))
    members = set(_members(entry))
    assert members - set(listed) == set()
    # Some of Dask's are listed too.
    assert [one for one in listed if one not in members and not hasattr(entry, one)] == []


def test_help_shows_each_argument_of_a_cluster_in_a_line() -> None:
    shown = [
        line.strip(" |") for line in pydoc.plain(pydoc.render_doc(terradask.Cluster)).splitlines()
    ]
    listed = shown[shown.index("Cluster(") + 1 : shown.index(")")]
    assert listed[:3] == ["name: str | None = None,", "*,", "offer: str | None = None,"]
    assert "connect: Literal['public', 'private', 'ssm'] | None = None," in listed
    names = [line.partition(":")[0] for line in listed if line != "*,"]
    assert names == list(inspect.signature(terradask.Cluster).parameters)


@pytest.mark.parametrize("name", EXPORTED)
def test_the_third_step_says_what_each_method_does(name: str) -> None:
    for member, value in _members(getattr(terradask, name)).items():
        function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(function):
            assert inspect.getdoc(function), f"{name}.{member}"


def test_what_methods_return_is_named_in_two_further_steps() -> None:
    left = {each.__name__: each for each in docs_page("python_reference").documented()}
    step = [left.pop(name) for name in EXPORTED]
    for _ in range(2):
        shown = set[str]().union(*(_words(pydoc.plain(pydoc.render_doc(each))) for each in step))
        step = [left.pop(name) for name in sorted(left.keys() & shown)]
    assert left == {}


def _members(entry: Any) -> dict[str, Any]:
    if not inspect.isclass(entry):
        return {}
    return {name: value for name, value in members_of(entry) if not name.startswith("_")}
