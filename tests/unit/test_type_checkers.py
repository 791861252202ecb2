"""A user's script in the eyes of two type checkers and of an editor, where terradask is installed
from its wheel, with nothing but what it needs.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import terradask
from terradask import cost, errors, policy

from ..light_environment import light_environment

pytestmark = pytest.mark.life

SCRIPTS = Path(__file__).parent / "data/user_scripts"
BIN = Path(sys.executable).parent


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return light_environment(tmp_path_factory.mktemp("environment"))


@pytest.fixture
def project(python: Path, tmp_path: Path) -> Path:
    """Return a user's folder with the scripts, and pyright's settings."""
    for script in SCRIPTS.glob("*.py"):
        (tmp_path / script.name).write_bytes(script.read_bytes())
    environment = python.parents[1]
    settings = {
        "typeCheckingMode": "strict",
        "venvPath": str(environment.parent),
        "venv": environment.name,
    }
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    return tmp_path


def mypy_lines(project: Path, python: Path, script: str) -> dict[int, str]:
    """Return line -> the first error that mypy finds there."""
    command = [BIN / "mypy", "--strict", "--output=json", f"--python-executable={python}", script]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    assert not done.stderr
    found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    return {
        each["line"]: each["message"] for each in reversed(found) if each["severity"] == "error"
    }


def pyright_lines(project: Path, _python: Path, script: str) -> dict[int, str]:
    """Return line -> the first error that pyright finds there."""
    command = [BIN / "basedpyright", "--outputjson", script]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    return {
        each["range"]["start"]["line"] + 1: each["message"]
        for each in reversed(found)
        if each["severity"] == "error"
    }


CHECKERS = pytest.mark.parametrize("checked", [mypy_lines, pyright_lines])


@CHECKERS
def test_right_uses_have_no_error(checked: Any, project: Path, python: Path) -> None:
    assert checked(project, python, "right_uses.py") == {}


@CHECKERS
def test_each_wrong_use_is_an_error_in_its_line(checked: Any, project: Path, python: Path) -> None:
    lines = (SCRIPTS / "wrong_uses.py").read_text().splitlines()
    wrong = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert len(wrong) > 40
    assert checked(project, python, "wrong_uses.py").keys() == wrong


@CHECKERS
def test_each_public_name_has_a_type(checked: Any, project: Path, python: Path) -> None:
    names = [
        *(f"terradask.{name}" for name in terradask.__all__),
        *(f"terradask.cost.{name}" for name in cost.__all__),
        *(f"terradask.errors.{name}" for name in dir(errors)),
        *(f"terradask.policy.{name}" for name in policy.__all__),
    ]
    # Of what has no type, no attribute is an error.
    lines = [
        "import terradask, terradask.cost, terradask.policy",
        *(f"print({name}.no_such)" for name in names),
    ]
    (project / "names.py").write_text("\n".join(lines))
    found = checked(project, python, "names.py")
    assert [
        name for line, name in enumerate(names, 2) if "no_such" not in found.get(line, "")
    ] == []


@CHECKERS
def test_without_the_mark_of_typed_packages_it_fails(
    checked: Any, project: Path, python: Path
) -> None:
    mark = next(python.parents[1].glob("lib/python*/site-packages/terradask/py.typed"))
    mark.unlink()
    try:
        assert checked(project, python, "right_uses.py") != {}
    finally:
        mark.touch()


# ---- an editor -----------------------------------------------------------------------------------


class Editor:
    """A client of pyright's language server."""

    def __init__(self, folder: Path) -> None:
        command = [BIN / "basedpyright-langserver", "--stdio"]
        self._server = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        self._number = 0
        self._uri = (folder / "open.py").as_uri()
        hover = {"textDocument": {"hover": {"contentFormat": ["markdown"]}}}
        at = {"uri": folder.as_uri(), "name": "project"}
        self._ask("initialize", processId=None, workspaceFolders=[at], capabilities=hover)
        self._send(method="initialized", params={})

    def open(self, text: str) -> None:
        document = {"uri": self._uri, "languageId": "python", "version": 1, "text": text}
        self._send(method="textDocument/didOpen", params={"textDocument": document})

    def hover(self, line: int, character: int) -> str:
        at = {"line": line, "character": character}
        found = self._ask("textDocument/hover", textDocument={"uri": self._uri}, position=at)
        return found["contents"]["value"] if found else ""

    def close(self) -> None:
        self._server.kill()
        self._server.communicate()

    def _send(self, **message: Any) -> None:
        assert self._server.stdin is not None
        body = json.dumps({"jsonrpc": "2.0", **message}).encode()
        self._server.stdin.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
        self._server.stdin.flush()

    def _received(self) -> dict[str, Any]:
        output = self._server.stdout
        assert output is not None
        length = 0
        while line := output.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        assert length, "the language server has ended"
        return json.loads(output.read(length))

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._send(id=self._number, method=method, params=params)
        while True:
            message = self._received()
            if "method" not in message and message.get("id") == self._number:
                return message["result"]
            if "method" in message and "id" in message:
                self._send(id=message["id"], result=None)


@pytest.fixture
def editor(project: Path) -> Iterator[Editor]:
    editor = Editor(project)
    yield editor
    editor.close()


def test_an_editor_shows_the_documentation_of_each_name(editor: Editor) -> None:
    own = sorted(name for name in vars(terradask.Cluster) if not name.startswith("_"))
    own = [name for name in own if name not in {"name", "status", "worker_spec"}]
    shown = [
        *(f"terradask.{name}" for name in terradask.__all__ if not name.startswith("_")),
        *(f"cluster.{name}" for name in own if name not in {"scheduler_info", "shutdown_on_close"}),
        "workspace.plan_cluster",
        "job.wait",
        "function.submit",
    ]
    head = [
        "import terradask",
        "def f(cluster: terradask.Cluster, workspace: terradask.Workspace, job: terradask.Job,",
        "      function: terradask.Function[[], None]) -> None:",
    ]
    editor.open("\n".join([*head, *(f"    {each}" for each in shown)]))
    silent = {}
    for number, each in enumerate(shown, len(head)):
        signature, line, doc = editor.hover(number, 4 + len(each) - 1).partition("\n---\n")
        if not line or not re.search(r"\w{3}", doc):
            silent[each] = signature
    assert silent == {}
