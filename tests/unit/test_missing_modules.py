"""Dask's errors about modules that hosts lack name the module and what sends it."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

import terradask
from terradask_modules.tracebacks import short_text

assert terradask.Cluster  # Its import is what explains Dask's errors.

GRAPH = RuntimeError("Error during deserialization of the task graph.")
REPEAT = "\n  then: repeat the call, client.submit and client.map with pure=False"


@pytest.fixture(autouse=True)
def own_modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Modules that this process has imported from its working directory, and from others."""
    (tmp_path / "work/own_pack").mkdir(parents=True)
    (tmp_path / "work/own_later.py").write_text("def double(x):\n    return 2 * x\n")
    (tmp_path / "work/own_pack/__init__.py").touch()
    (tmp_path / "work/own_pack/deep.py").touch()
    (tmp_path / "own_above.py").touch()
    monkeypatch.chdir(tmp_path / "work")
    for folder in (tmp_path, tmp_path / "work"):
        monkeypatch.syspath_prepend(str(folder))
    for name in ("own_later", "own_pack", "own_pack.deep"):
        monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.import_module(name)


def shown(error: Exception, cause: Exception | None = None, *, by: str = "distributed") -> str:
    """Return what a program shows that such an error has ended, raised inside a library."""
    names: dict[str, Any] = {"__name__": f"{by}.client", "error": error, "cause": cause}
    exec(compile("def result():\n    raise error from cause", "client.py", "exec"), names)
    with pytest.raises(type(error)) as caught:
        names["result"]()
    return short_text(caught.type, caught.value, caught.value.__traceback__) or ""


def missing(module: str) -> ModuleNotFoundError:
    return ModuleNotFoundError(f"No module named {module!r}", name=module)


@pytest.mark.parametrize(
    ("error", "cause", "wanted"),
    [
        (GRAPH, missing("own_later"), "to do: client.upload_file('own_later.py'); with Cluster("),
        (missing("own_later"), None, "hosts don't have the module own_later, which this machine"),
        (Exception(repr(missing("own_later"))), None, "client.upload_file('own_later.py')"),
        (GRAPH, missing("own_above"), "/own_above.py'); with Cluster(local_modules=True), "),
        (GRAPH, missing("own_pack"), "to do: with Cluster(local_modules=True), cluster.sync_"),
        (GRAPH, missing("own_pack.deep"), "cluster again with it, in the folder of own_pack"),
        (GRAPH, missing("moto"), "distributed.PipInstall(['moto'])), from an index; or start"),
        (
            GRAPH,
            AttributeError("Can't get attribute 'double' on <module 'own_later' from '/x'>"),
            "hosts have the module own_later as it was before double came into it",
        ),
    ],
)
def test_an_error_of_hosts_names_the_module_and_what_sends_it(
    error: Exception, cause: Exception | None, wanted: str
) -> None:
    text = shown(type(error)(*error.args), cause)
    assert wanted in text
    assert REPEAT in text
    assert "raise error" not in text
    assert "(1 frame of libraries left out" in text
    assert len(text.splitlines()) <= 12


@pytest.mark.parametrize(
    "cause",
    [
        missing("own_nowhere"),
        missing("own_pack.gone"),
        missing("json"),
        AttributeError("Can't get attribute 'gone' on <module 'own_later' from '/x'>"),
        ValueError("another"),
    ],
)
def test_what_this_process_lacks_too_stays_as_dask_shows_it(cause: Exception) -> None:
    assert shown(RuntimeError("x"), cause) == ""


def test_an_error_of_this_process_stays() -> None:
    assert shown(missing("own_later"), by="mine") == ""


def test_it_is_explained_once() -> None:
    error = missing("own_later")
    assert shown(error)
    assert shown(error).count("to do:") == 1
