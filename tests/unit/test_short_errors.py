"""An uncaught error of terradask shows its text and the user's lines, in notebooks, IPython,
scripts and the REPL. Debuggers and logs still get all of the traceback.
"""

from __future__ import annotations

import io
import logging
import os
import pickle
import re
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path

import pytest
from tblib import Traceback

from terradask import errors
from terradask.errors import AwsError, ClusterNotFound, InvalidInput
from terradask_modules import short_errors
from terradask_modules.tracebacks import DEBUG_VARIABLE, short_text
from terradask_stacks.validators.names import validate_cluster_name

from ..kernel import Kernel, kernel
from ..waiting import PROCESS_SECONDS

#: The last frame of a wrong name, in a file of terradask's.
LAST_FRAME = "in _matching"
NAME_ERROR = "InvalidInput: the cluster's name can't be used\n  given: Etl X\n  allowed: "


@pytest.fixture(scope="module")
def environ(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    kept = {
        name: text
        for name, text in os.environ.items()
        if not name.startswith(("AWS_", "TERRADASK_", "PYTEST_", "COV_"))
    }
    home = tmp_path_factory.mktemp("home")
    return {**kept, "HOME": str(home), "IPYTHONDIR": str(home / "ipython"), "TERM": "dumb"}


@pytest.fixture(scope="module")
def notebook(environ: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with kernel(tmp_path_factory.mktemp("k"), environ) as running:
        running.run("from terradask import Cluster\ndef mine(name):\n    return Cluster(name)")
        yield running


def run_python(
    arguments: list[str], environ: dict[str, str], folder: Path, stdin: str = ""
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
        cwd=folder,
        env=environ,
    )


# ---- notebooks -----------------------------------------------------------------------------------


def test_a_notebook_shows_the_text_and_the_users_lines(notebook: Kernel) -> None:
    shown = notebook.run("mine('Etl X')")
    assert shown.frames == 2, shown.error
    assert "----> 1 mine('Etl X')" in shown.error
    assert "----> 3     return Cluster(name)" in shown.error
    assert NAME_ERROR in shown.error
    assert shown.error.splitlines()[-1] == "  to do: choose another name, such as 'etl-x'"
    assert len(shown.error.splitlines()) <= 18
    assert "terradask/" not in shown.error
    assert "(5 frames of libraries left out; %tb shows all)" in shown.error


def test_a_notebook_shows_all_when_asked(notebook: Kernel) -> None:
    notebook.run("mine('Etl X')")
    again = notebook.run("%tb")
    assert again.frames == 7, again.error
    assert LAST_FRAME in again.error
    notebook.run(f"%env {DEBUG_VARIABLE}=1")
    assert LAST_FRAME in notebook.run("mine('Etl X')").error
    notebook.run(f"%env {DEBUG_VARIABLE}=0")
    assert LAST_FRAME not in notebook.run("mine('Etl X')").error


@pytest.mark.parametrize(
    ("mode", "is_whole"), [("Plain", False), ("Minimal", False), ("Verbose", True)]
)
def test_a_notebooks_own_mode_is_kept(notebook: Kernel, mode: str, *, is_whole: bool) -> None:
    notebook.run(f"%xmode {mode}")
    try:
        shown = notebook.run("mine('Etl X')").error
    finally:
        notebook.run("%xmode Context")
    assert NAME_ERROR in shown
    assert (LAST_FRAME in shown) == is_whole


# With IPython of 2022 the debugger gets fewer frames.
@pytest.mark.locked
def test_a_notebooks_debugger_gets_all_frames(notebook: Kernel) -> None:
    notebook.run("mine('Etl X')")
    last = notebook.run(
        "import sys, traceback\n"
        "print([f.name for f in traceback.extract_tb(sys.last_traceback)][-1])\n"
        "print(get_ipython().InteractiveTB.tb is sys.last_traceback)"
    )
    assert last.printed.split() == ["_matching", "True"]


def test_a_notebook_shows_what_was_under_handling(notebook: Kernel) -> None:
    shown = notebook.run("try:\n    {}['k']\nexcept KeyError:\n    mine('Etl X')")
    assert "KeyError: 'k'\n\nDuring handling" in shown.error
    assert LAST_FRAME not in shown.error
    shown = notebook.run("try:\n    {}['k']\nexcept KeyError:\n    raise ValueError('x')")
    assert shown.frames == 2, "other errors stay as they are"


def test_a_notebook_shows_a_wrong_argument_shortly(notebook: Kernel) -> None:
    shown = notebook.run("Cluster(n_worker=3)")
    assert shown.frames == 1, shown.error
    assert shown.error.endswith(
        "TypeError: Cluster() got an unexpected keyword argument 'n_worker'; did you mean "
        "'n_workers'?"
    )
    shown = notebook.run("Cluster('etl', 3, 4)")
    assert shown.frames == 1, shown.error
    assert shown.error.endswith("TypeError: Cluster(): too many positional arguments")


#: A cell, the frames and the most lines of what it shows, and a line of its user's in it.
OUTER = {
    "a cause": (
        "def f():\n    try:\n        mine('Etl X')\n    except Exception as error:\n"
        "        raise RuntimeError('own') from error\nf()",
        (4, 45, "RuntimeError: own"),
    ),
    "a context": ("try:\n    mine('Etl X')\nexcept ValueError:\n    1 / 0", (3, 35, "1 / 0")),
    "a group": ("raise ExceptionGroup('all', [caught])", (0, 20, "ExceptionGroup: all (1 sub-")),
    "a group of tasks": (
        "import asyncio\nasync def one():\n    mine('Etl X')\n"
        "async with asyncio.TaskGroup() as group:\n    group.create_task(one())",
        (0, 25, "|     mine('Etl X')"),
    ),
    "an await": ("async def one():\n    mine('Etl X')\nawait one()", (3, 22, "await one()")),
    "%time": ("%time mine('Etl X')", (3, 22, "return Cluster(name)")),
    "%%time": ("%%time\nmine('Etl X')", (3, 22, "return Cluster(name)")),
    "%run": ("%run mine.py", (1, 16, "Cluster('Etl X')")),
    "a pool": (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor() as pool:\n    pool.submit(mine, 'Etl X').result()",
        (2, 20, "pool.submit(mine, 'Etl X').result()"),
    ),
}


@pytest.mark.locked  # IPython's own frames of a magic differ
@pytest.mark.parametrize("cell", list(OUTER))
def test_a_notebook_shows_others_errors_with_one_inside_shortly(
    notebook: Kernel, cell: str
) -> None:
    code, (frames, most_lines, wanted) = OUTER[cell]
    notebook.run(
        "from pathlib import Path\ntry: mine('Etl X')\nexcept ValueError as e: caught = e\n"
        "_ = Path('mine.py').write_text(\"from terradask import Cluster\\nCluster('Etl X')\")"
    )
    shown = notebook.run(code)
    assert shown.frames == frames, shown.error
    assert len(shown.error.splitlines()) <= most_lines
    assert wanted in shown.error
    assert shown.error.count("InvalidInput: the cluster's name can't be used") == 1
    assert LAST_FRAME not in shown.error
    assert "interactiveshell" not in shown.error
    assert "Traceback" not in shown.printed
    assert "%tb shows all)" in shown.error
    whole = notebook.run("%tb").error
    assert LAST_FRAME in whole
    assert LAST_FRAME not in notebook.run(code).error, "it stays short after it was shown whole"


def test_a_notebooks_own_way_to_show_errors_stays(notebook: Kernel) -> None:
    shown = notebook.run(
        "from types import SimpleNamespace\n"
        "from terradask_modules.ipython_tracebacks import show_in\n"
        "shell = SimpleNamespace(showtraceback=print)\n"
        "show_in(shell)\nprint(shell.showtraceback is print)"
    )
    assert shown.printed == "True\n"


def test_an_error_that_a_notebook_cannot_shorten_is_shown_whole(notebook: Kernel) -> None:
    notebook.run(
        "import terradask_modules.ipython_tracebacks as shortened\n"
        "own, shortened.has_short_form = shortened.has_short_form, None"
    )
    shown = notebook.run(OUTER["a cause"][0]).error
    notebook.run("shortened.has_short_form = own")
    assert LAST_FRAME in shown
    assert "RuntimeError: own" in shown


@pytest.mark.locked
def test_ipythons_terminal_and_its_debugger(environ: dict[str, str], tmp_path: Path) -> None:
    done = run_python(
        [
            "-m",
            "IPython",
            "--simple-prompt",
            "--no-banner",
            "--colors=NoColor",
        ],
        environ,
        tmp_path,
        "from terradask import Cluster\nCluster('Etl X')\n%debug\np whose\nq\n",
    )
    shown = done.stdout
    assert NAME_ERROR in shown
    before, _, debugged = shown.partition("ipdb>")
    assert LAST_FRAME not in before
    # A variable of terradask's last frame.
    assert "'cluster'" in debugged


# ---- scripts and the REPL ------------------------------------------------------------------------

SCRIPT = """\
import asyncio, logging, sys, threading
from terradask import Cluster

def logged():
    try:
        Cluster("Etl X")
    except Exception:
        logging.exception("logged")

async def one():
    Cluster("Etl X")

async def both():
    async with asyncio.TaskGroup() as group:
        group.create_task(one())

async def forgotten():
    asyncio.create_task(one())
    await asyncio.sleep(0)

class Owner:
    def __del__(self):
        Cluster("Etl X")

class Strange:
    def __del__(self):
        {}["key"]

    def __repr__(self):
        return Cluster("Etl X")

if sys.argv[1:] == ["ignored"]:
    Owner()
    Strange()
    sys.exit()
if sys.argv[1:] == ["aside"]:
    thread = threading.Thread(target=asyncio.run, args=[one()], name="own")
    thread.start(), thread.join()
    asyncio.run(forgotten())
    logging.basicConfig()
    asyncio.run(forgotten())
    sys.exit()
if sys.argv[1:] == ["hook"]:
    sys.excepthook = lambda kind, error, traceback: print("own hook", kind.__name__)
elif sys.argv[1:] == ["group"]:
    asyncio.run(both())
else:
    logged()
    print("after the log", file=sys.stderr)
Cluster("Etl X")
"""


@pytest.fixture
def script(tmp_path: Path) -> str:
    file = tmp_path / "script.py"
    file.write_text(SCRIPT)
    return str(file)


def test_a_script_ends_with_the_text_and_its_line(
    script: str, environ: dict[str, str], tmp_path: Path
) -> None:
    done = run_python([script], environ, tmp_path)
    assert done.returncode == 1
    logged, _, shown = done.stderr.partition("after the log\n")
    assert LAST_FRAME in logged
    assert 'Cluster("Etl X")' in shown
    assert "(5 frames of libraries left out; TERRADASK_DEBUG=1 shows all)" in shown
    assert NAME_ERROR in shown
    assert LAST_FRAME not in shown
    assert len(shown.splitlines()) <= 9


def test_a_scripts_group_of_errors_is_short_in_its_parts(
    script: str, environ: dict[str, str], tmp_path: Path
) -> None:
    shown = run_python([script, "group"], environ, tmp_path).stderr
    assert "ExceptionGroup: unhandled errors in a TaskGroup" in shown
    assert LAST_FRAME not in shown
    assert "| terradask_modules.errors.InvalidInput: the cluster's name can't be used" in shown


def test_threads_and_tasks_of_a_script_show_the_text_and_its_line(
    script: str, environ: dict[str, str], tmp_path: Path
) -> None:
    shown = run_python([script, "aside"], environ, tmp_path).stderr
    thread, task, logged = re.split(r"^.*?Task exception was never.*$", shown, flags=re.MULTILINE)
    assert thread.startswith("Exception in thread own:\nTraceback (most recent call last):\n")
    for each in (thread, task, logged):
        assert NAME_ERROR in each
        assert 'Cluster("Etl X")' in each
        assert (LAST_FRAME in each) == (each is logged)


def test_what_python_ignores_shows_the_text_and_its_line(
    script: str, environ: dict[str, str], tmp_path: Path
) -> None:
    shown = run_python([script, "ignored"], environ, tmp_path).stderr
    own, _, others = shown.partition("Exception ignored")[2].partition("Exception ignored")
    assert "Owner.__del__" in own.splitlines()[0]
    assert 'Cluster("Etl X")' in own
    assert NAME_ERROR in own
    assert LAST_FRAME not in shown
    assert len(own.splitlines()) <= 10
    assert "Strange.__del__" in others.splitlines()[0]
    assert "KeyError: 'key'" in others


def test_a_scripts_own_hook_stays(script: str, environ: dict[str, str], tmp_path: Path) -> None:
    done = run_python([script, "hook"], environ, tmp_path)
    assert done.stdout == "own hook InvalidInput\n"
    before = (
        "import sys\nown = sys.excepthook = lambda *error: None\nimport terradask\n"
        "print(sys.excepthook is own)"
    )
    assert run_python(["-c", before], environ, tmp_path).stdout == "True\n"


def test_the_repl_goes_on_after_a_short_error(environ: dict[str, str], tmp_path: Path) -> None:
    typed = (
        "from terradask import Cluster\nCluster('Etl X')\nimport sys, traceback\n"
        "print(traceback.extract_tb(sys.last_traceback)[-1].name)\n"
    )
    done = run_python(["-i", "-q"], environ, tmp_path, typed)
    assert NAME_ERROR in done.stderr
    assert LAST_FRAME not in done.stderr
    assert done.stdout.strip() == "_matching"


# ---- the text ------------------------------------------------------------------------------------


def wrong_name() -> InvalidInput:
    try:
        validate_cluster_name("Etl X")
    except InvalidInput as error:
        return error
    raise AssertionError


def short(error: BaseException) -> str | None:
    return short_text(type(error), error, error.__traceback__)


def test_errors_of_others_stay_as_python_shows_them() -> None:
    assert short(ValueError("x")) is None
    assert short(KeyboardInterrupt()) is None
    assert short(ExceptionGroup("x", [ValueError("y")])) is None


def test_an_error_under_anothers_is_short_too() -> None:
    def fail() -> None:
        try:
            validate_cluster_name("Etl X")
        except InvalidInput as error:
            raise RuntimeError("mine") from error

    with pytest.raises(RuntimeError) as caught:
        fail()
    shown = short(caught.value) or ""
    assert NAME_ERROR in shown
    assert LAST_FRAME not in shown
    assert "direct cause" in shown
    assert shown.endswith("RuntimeError: mine\n")
    # The traceback itself is whole.
    assert traceback.extract_tb(caught.value.__cause__.__traceback__)[-1].name == "_matching"  # type: ignore[union-attr]


def test_a_tasks_error_shows_the_users_lines_on_the_worker() -> None:
    """A package of the user's, installed on the host alone, is not one of this machine's."""
    file = "/var/lib/terradask/environment/lib/python3/site-packages/their/own.py"
    names = {"fail": validate_cluster_name, "__name__": "their.own", "__file__": file}
    exec(compile("def on_worker():\n    return fail('Etl X')", file, "exec"), names)

    def task(kind: type[BaseException] | None) -> None:
        try:
            names["on_worker"]()  # type: ignore[operator]
        except InvalidInput as error:
            if kind is None:
                raise
            raise kind("mine") from error

    for kind in (None, RuntimeError):
        with pytest.raises((InvalidInput, RuntimeError)) as caught:
            task(kind)
        error = caught.value
        for each in (error, error.__cause__):
            if each is not None:
                # As Dask sends it.
                each.__traceback__ = Traceback(each.__traceback__).as_traceback()
        with pytest.raises(type(error)):
            raise error
        shown = short(error) or ""
        assert "in test_a_tasks_error_shows" in shown
        assert "in task" in shown
        assert f'File "{file}", line 2, in on_worker' in shown
        assert NAME_ERROR in shown
        assert LAST_FRAME not in shown


def test_what_terradask_caught_is_left_out_and_what_the_user_caught_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    inner = ValueError("an answer of AWS")
    inner.__traceback__ = wrong_name().__traceback__.tb_next  # type: ignore[union-attr]
    outer = KeyError("the user's")
    outer.__traceback__ = wrong_name().__traceback__
    error = wrong_name()
    error.__cause__ = inner
    assert "an answer of AWS" not in (short(error) or "")
    inner.__context__ = outer
    shown = short(error) or ""
    assert "an answer of AWS" not in shown
    assert 'KeyError: "the user\'s"' in shown
    assert NAME_ERROR in shown
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    shown = short(error) or ""
    assert "an answer of AWS" in shown
    assert LAST_FRAME in shown


def test_an_error_without_a_line_of_the_users_shows_all() -> None:
    error = wrong_name()
    error.__traceback__ = error.__traceback__.tb_next  # type: ignore[union-attr]
    assert LAST_FRAME in (short(error) or "")


def test_notes_and_causes_have_no_control_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    error = ClusterNotFound("gone", cluster="etl")
    error.add_note("a note\x1b[2J")
    error.__cause__ = ValueError("an answer\x1b[2J")
    monkeypatch.setenv(DEBUG_VARIABLE, "1")
    shown = short(error) or ""
    assert "a note" in shown
    assert "an answer" in shown
    assert "\x1b" not in shown


def test_an_error_that_cannot_be_shortened_is_shown_whole(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> str:
        raise RuntimeError("x")

    error = wrong_name()
    monkeypatch.setattr(short_errors, "short_text", fail)
    short_errors._show(type(error), error, error.__traceback__)
    assert LAST_FRAME in capsys.readouterr().err


def test_the_hooks_change_neither_pickles_nor_logs() -> None:
    error = AwsError("a", advice="b")
    again = pickle.loads(pickle.dumps(error))
    assert again.__dict__ == error.__dict__ == {
        "problem": "a", "given": None, "allowed": None, "advice": "b"
    }  # fmt: skip
    out = io.StringIO()
    logger = logging.Logger("own")
    logger.addHandler(logging.StreamHandler(out))
    try:
        validate_cluster_name("Etl X")
    except errors.TerradaskError:
        logger.exception("failed")
    assert LAST_FRAME in out.getvalue()
