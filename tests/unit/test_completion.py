"""What Tab and Shift-Tab show in IPython and in a kernel of Jupyter."""

from __future__ import annotations

import inspect
import json
import re
import typing
import warnings
from pathlib import Path
from typing import Any

import jedi
import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import terradask
from terradask._dask.arguments import ClusterArguments
from terradask._dask.functions.hardware import OWN, SHORT_NAMES, FunctionArguments
from terradask.errors import SetupError

from ..waiting import HANG_SECONDS
from .public_surface import docs_page
from .settings_files import write

SETTINGS = """
[workspace]
name = "team"

[clusters.nightly]
worker_cpu = 4

[offers.small]
description = "a try"
worker_cpu = 2
"""


def test_jedi_completes_each_public_class_and_its_objects() -> None:
    """It has an error of its own for some annotations of properties, and then completes nothing."""
    for cls in filter(inspect.isclass, docs_page("python_reference").documented()):
        known = {name for name in dir(cls) if not name.startswith("_")}
        one = object.__new__(cls)
        for text in ("cls.", "one."):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = jedi.Interpreter(text, [{"cls": cls, "one": one}]).complete()
            assert known <= {each.name for each in found}, cls


@pytest.mark.locked
def test_jedi_fails_on_a_property_that_returns_a_literal() -> None:
    class Planted:
        @property
        def state(self) -> typing.Literal["on", "off"]:
            return "on"

    # When this fails, the imports for type checkers alone that avoid it can go.
    with pytest.raises(AttributeError, match="with_generics"):
        jedi.Interpreter("cls.", [{"cls": Planted}]).complete()


def test_shift_tab_shows_first_what_to_write() -> None:
    shell = InteractiveShell()
    shell.run_cell("from terradask import Cluster")
    shown = shell.object_inspect_mime("Cluster")["text/plain"]
    lines = re.sub(r"\x1b\[[\d;]*m", "", shown).splitlines()
    assert lines[:3] == [
        "Init signature:",
        "Cluster(",
        '    # Cluster(n_workers=10, worker_cpu=4, worker_memory="16 GiB", '
        'spot_policy="spot_with_fallback")',
    ]
    topics = re.findall(r"^ *\*\*(.+)\*\*$", ClusterArguments.__doc__ or "", re.MULTILINE)
    listed = [line.removeprefix("    # ") for line in lines if line.startswith("    # ")]
    assert listed[-len(topics) :] == topics
    assert "    worker_cpu: int | Sequence[int] | Literal['*'] | None = None," in lines
    assert max(map(len, lines)) <= 110


def test_a_functions_own_arguments_have_the_types_of_the_clusters() -> None:
    shown = list(inspect.signature(terradask.function).parameters)
    assert shown == ["function", *OWN, "cluster"]
    own, theirs = FunctionArguments.__annotations__, ClusterArguments.__annotations__
    same = {**SHORT_NAMES, "n_workers": "n_workers"}
    assert {name: own[name].removesuffix(" | None") for name in same} == {
        name: theirs[long].removesuffix(" | None") for name, long in same.items()
    }


IMPORTS = "from terradask import *"
CASES = [
    ('Cluster(n_workers=2, offer="', ["small"]),
    ("Cluster(name='ni", ["nightly"]),
    ('Cluster("', ["nightly"]),
    ('workspace.deployment("n', ["nightly"]),
    ('Cluster(spot_policy="spot', ["spot", "spot_with_fallback"]),
    ('Cluster(connect = "', ["private", "public", "ssm"]),
    ("terradask.function(memory='8 GiB', spot_p", ["spot_policy="]),
    ("@terradask.function(keep", ["keepalive="]),
    ("terradask.function(attac", []),
]


def test_ipython_completes_names_and_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path, SETTINGS).parent)
    shell = InteractiveShell()
    shell.extension_manager.load_extension("terradask")
    for text, expected in CASES:
        with provisionalcompleter():
            found = shell.Completer.completions(text, len(text))
            assert sorted(each.text for each in found) == expected, text


def test_an_older_ipython_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("IPython.core.completer.SimpleCompletion")
    with pytest.raises(SetupError, match="IPython can't complete") as refused:
        terradask.load_ipython_extension(InteractiveShell())
    assert refused.value.allowed == "8.6 or newer"


@pytest.mark.life
def test_a_kernel_completes_and_shows_them(tmp_path: Path) -> None:
    from jupyter_client.manager import start_new_kernel

    write(tmp_path, SETTINGS)
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path))

    def asked(kind: str, **content: Any) -> Any:
        return getattr(client, kind)(**content, reply=True, timeout=HANG_SECONDS)["content"]

    def completed(code: str) -> list[str]:
        return asked("complete", code=code, cursor_pos=len(code))["matches"]

    try:
        ran = asked(
            "execute", code="%load_ext terradask\nimport terradask\nfrom terradask import *"
        )
        assert ran["status"] == "ok", json.dumps(ran)
        for code, expected in CASES:
            assert sorted(completed(code)) == expected, code
        assert "worker_cpu=" in completed("Cluster(worker_")
        assert completed("Cluster.adap") == ["adapt", "adapting"]
        assert "run_command" in completed("cluster = Cluster('etl')\ncluster.run")
        assert "exit_code" in completed("job = Cluster('etl').run_command(['ls'])\njob.ex")
        code = "cluster = Cluster("
        shown = asked("inspect", code=code, cursor_pos=len(code))["data"]["text/plain"]
        assert "# Workers and scaling" in shown
        assert "A Dask cluster on instances of your own AWS account." in shown
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
