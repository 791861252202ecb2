"""How files are given to the processes of a run."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ..distribution import Distribution

KINDS = {
    **{f"tests/simulator/test_{number}.py": "sim" for number in range(9)},
    **{f"tests/synth/test_{number}.py": "synthesis" for number in range(9)},
}
FILES = [*KINDS, *(f"tests/unit/test_{number}.py" for number in range(9))]
IDS = [f"{file}::test_{number}" for file in FILES for number in range(3)]


class Node:
    """One process, which runs what it is given."""

    def __init__(self, number: int) -> None:
        self.gateway = SimpleNamespace(id=f"gw{number}")
        self.shutting_down = False
        self.given: list[int] = []
        self.ran: list[str] = []

    def send_runtest_some(self, indexes: list[int]) -> None:
        self.given += indexes

    def shutdown(self) -> None:
        self.shutting_down = True


def _run(config: pytest.Config, folder: Path, ids: list[str], count: int) -> list[Node]:
    """Have processes run tests in turn; each ends without its last one, as `pytest-xdist`'s."""
    kinds = folder / "kinds.json"
    kinds.write_text(json.dumps(KINDS))
    distribution = Distribution(config, None, kinds)
    distribution.numnodes = count
    nodes: list[Any] = [Node(number) for number in range(count)]
    for node in nodes:
        distribution.add_node(node)
        distribution.add_node_collection(node, ids)
    distribution.schedule()
    while any(node.given for node in nodes):
        for node in nodes:
            if node.given:
                index = node.given.pop(0)
                node.ran.append(ids[index])
                distribution.mark_test_complete(node, index)
    assert distribution.tests_finished
    assert sorted(each for node in nodes for each in node.ran) == sorted(ids)
    return nodes


@pytest.fixture
def config(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> pytest.Config:
    monkeypatch.setattr(pytestconfig.option, "tx", ["popen"])
    monkeypatch.setattr(pytestconfig.option, "loadscopereorder", False)
    return pytestconfig


def _kinds_of(node: Node) -> list[str]:
    files = dict.fromkeys(each.partition("::")[0] for each in node.ran)
    return [KINDS.get(file, "") for file in files]


def test_files_that_share_go_to_one_process(config: pytest.Config, tmp_path: Path) -> None:
    first, second, *others = _run(config, tmp_path, IDS, 4)
    assert "sim" in _kinds_of(first)
    assert _kinds_of(second)[:3] == ["synthesis"] * 3
    assert all(_kinds_of(other)[:3] == [""] * 3 for other in others)
    # The last few are left to the process that has the network.
    assert [kind for node in (second, *others) for kind in _kinds_of(node) if kind == "sim"] == []


def test_all_run_whatever_is_left_for_whom(config: pytest.Config, tmp_path: Path) -> None:
    _run(config, tmp_path, IDS, 1)
    nodes = _run(config, tmp_path, [each for each in IDS if "simulator" in each], 3)
    # Many are shared out.
    assert all(node.ran for node in nodes)
