"""What is replaced in moto has to have the shape that the replacement counts on."""

from __future__ import annotations

import ast
import importlib.metadata
import pickle
from collections import defaultdict
from pathlib import Path
from typing import Any

import pytest

from terradask_simulator.aws import fidelity
from terradask_simulator.aws.fidelity import addresses
from terradask_simulator.aws.fidelity.patching import MotoChanged, around


def owner() -> Any:
    class Backend:
        def tag(self, name: str, tags: dict[str, str], *, force: bool = False) -> str:
            return f"{name} {tags} {force}"

    return Backend


def by_place(tag: Any, backend: Any, name: str, tags: Any, **more: Any) -> Any:
    return tag(backend, name.upper(), tags, **more)


def by_name(tag: Any, backend: Any, **asked: Any) -> Any:
    return tag(backend, **{**asked, "name": asked["name"].upper()})


def without_tags(tag: Any, backend: Any, name: str, *, force: bool = False) -> Any:
    return tag(backend, name, {}, force=force)


def with_region(tag: Any, backend: Any, name: str, tags: Any, region: str, **more: Any) -> Any:
    return tag(backend, name + region, tags, **more)


@pytest.mark.parametrize("replacement", [by_place, by_name])
def test_a_method_is_replaced_once(replacement: Any) -> None:
    backend = owner()
    for _ in range(2):
        around(backend, "tag")(replacement)
    assert backend().tag(name="a", tags={}) == "A {} False"


@pytest.mark.parametrize("replacement", [without_tags, with_region])
def test_other_parameters_are_refused_with_motos_version(replacement: Any) -> None:
    with pytest.raises(MotoChanged) as caught:
        around(owner(), "tag")(replacement)
    assert "Backend.tag takes (self, name" in str(caught.value)
    assert f"moto {importlib.metadata.version('moto')}" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_method_that_is_gone_is_named() -> None:
    with pytest.raises(MotoChanged, match=r"Backend\.untag is gone"):
        around(owner(), "untag")(by_name)


def test_of_those_that_replace_the_same_function_all_but_the_last_are_in_order() -> None:
    replacing: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for path in Path(fidelity.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Call(ast.Name("around"), [owner, ast.Constant(str(name))]):
                    replacing[ast.unparse(owner), name].add(path.stem)
    assert len(replacing["S3Response", "put_object"]) == 2
    # Installed first, with an argument.
    known = {*fidelity._IN_ORDER, "addresses"}
    assert {key: them for key, them in replacing.items() if len(them - known) > 1} == {}


def test_so_is_a_module_or_a_class(monkeypatch: pytest.MonkeyPatch) -> None:
    class Changed:
        @staticmethod
        def install() -> None:
            from moto.ec2 import absent  # noqa: F401

    monkeypatch.setattr(addresses, "install", lambda _: None)
    monkeypatch.setattr(fidelity, "_IN_ORDER", ("clock",))
    monkeypatch.setattr(fidelity, "import_module", lambda _: Changed)
    with pytest.raises(MotoChanged, match=r"cannot import name 'absent' from 'moto\.ec2'"):
        fidelity.install_all(public_cidr="198.51.100.0/24")
