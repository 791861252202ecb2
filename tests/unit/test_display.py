"""A cluster's numbers as people see them: hosts, and by group where there are several."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.displaypub import DisplayPublisher
from IPython.core.interactiveshell import InteractiveShell

from terradask._common.progress import Message
from terradask._dask import notebook
from terradask._dask.display import by_group, escaped, repr_row, scaling_table
from terradask._dask.pool import WorkerGroupState


def group(plan: int, observed: int) -> WorkerGroupState:
    names = [f"i-{number}" for number in range(plan)]
    return WorkerGroupState(frozenset(names), frozenset(names), frozenset(names[:observed]))


def test_each_group_is_shown_where_there_are_several() -> None:
    groups = {"workers": group(1, 1), "gpu": group(2, 0)}
    assert by_group(groups) == "workers: 1/1, gpu: 0/2"
    assert "workers: 1/1, gpu: 0/2" in (repr_row(groups) or "")
    table = scaling_table("Manual", group(3, 1), groups)
    assert "Workers: 1/3" in table
    assert "the group workers" in table


def test_one_group_is_the_cluster() -> None:
    groups = {"workers": group(2, 1)}
    assert (by_group(groups), repr_row(groups)) == ("", None)
    assert "roup" not in scaling_table("Adaptive", group(2, 1), groups)


def test_all_text_that_a_scheduler_reported_is_escaped() -> None:
    hostile = "<script>alert('x')</script>"

    class Packed:
        def __str__(self) -> str:
            return hostile

    found = {"workers": {hostile: {"name": hostile, "nthreads": 2, "memory": 1.5, "gpu": None}}}
    shown = escaped(found | {"more": [hostile, (hostile,)], "packed": Packed()})
    assert "<" not in str(shown)
    (worker,) = shown["workers"].values()
    assert (worker["nthreads"], worker["memory"], worker["gpu"]) == (2, 1.5, None)
    plain = {"id": "Scheduler-1", "workers": {"tls://10.0.0.7:4321": {"name": "i-0a"}}}
    assert escaped(plain) == plain


def test_jupyter_shows_progress_in_one_line_that_is_empty_afterwards(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without ipywidgets, which rich would ask for in a warning."""
    published: list[tuple[str, bool]] = []

    class Publisher(DisplayPublisher):
        def publish(self, data: Any, metadata: Any = None, **more: Any) -> None:
            published.append((data["text/plain"], bool(more.get("update"))))

    monkeypatch.setattr(notebook, "_in_ipython", lambda: True)
    monkeypatch.setattr("rich.console.Console", lambda **_: SimpleNamespace(is_jupyter=True))
    shell = InteractiveShell.instance()
    monkeypatch.setattr(shell, "display_pub", Publisher(parent=shell))
    try:
        with notebook.shown_in_notebook(True) as show:
            show(Message("no disk [/x]here"))
        show(Message("too late"))
    finally:
        InteractiveShell.clear_instance()
    assert published == [("terradask", False), ("no disk [/x]here", True), ("", True)]
