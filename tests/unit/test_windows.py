"""The client on Windows, as far as that can be tested elsewhere: no module needs what only POSIX
has, and what differs there is done as there. `tests/simulator/test_windows.py` lets it work.
"""

from __future__ import annotations

import errno
import io
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path, PureWindowsPath
from types import SimpleNamespace
from typing import Any

import pytest

from terradask._aws.ssm.plugin import NAME, find_plugin
from terradask._clusters.jobs import files as job_files
from terradask._common import processes
from terradask._software.indexes.configured import Machine, find_links, pip_indexes, uv_indexes
from terradask._software.indexes.credentials import credentials_for
from terradask.cli import _output
from terradask.errors import InvalidInput, SetupError
from terradask_modules import programs
from terradask_stacks import files

from ..waiting import PROCESS_SECONDS
from . import windows_rules as rules
from .source_tree import REPOSITORY, Tree, planted, repository

#: What a module looks up to ask for the platform.
WINDOWS = SimpleNamespace(platform="win32")

#: Imports every module of the client, tries Terraform, and says what failed.
EVERY_MODULE = """
import importlib, json, pkgutil, sys
from tests.as_on_windows import begin

begin()
import terradask, terradask_modules, terradask_stacks

failed, refused = {}, {}
for package in (terradask_modules, terradask_stacks, terradask):
    for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        # Programs, which work when they are imported.
        if found.name in ("terradask.__main__", "terradask.app"):
            continue
        try:
            importlib.import_module(found.name)
        except Exception as error:
            failed[found.name] = f"{type(error).__name__}: {error}"

from pathlib import Path
from terradask import Workspace
from terradask._aws.ssm import guard
from terradask._doctor.doctor import TOOLCHAIN, examine
from terradask._terraform.binary import find_terraform
from terradask._terraform.folder_lock import FolderLock
from terradask.errors import SetupError

def lock():
    with FolderLock(Path("stack"), limit_seconds=0):
        pass

workspace = Workspace.load(workspace={"region": "us-east-1"})
for what in (
    workspace.plan, workspace.plan_network, workspace.destroy_network, lock,
    lambda: workspace.destroy_cluster("etl"), lambda: workspace.plan_cluster("etl"),
    lambda: find_terraform({}),
):
    try:
        what()
    except SetupError as error:
        refused[str(len(refused))] = error.advice

from terradask.cli import run
commands = [run([*words]) for words in (("plan",), ("demo",), ("sim", "status"))]

# What a process of this user is: by name, not by number.
from terradask._common.processes import own_processes
own = {each.pid for each in own_processes()}

# A module of ours that needs what Windows lacks isn't taken.
planted = []
for line in ("import fcntl", "import os; os.fork()", "from signal import SIGHUP",
             "import subprocess; subprocess.run(['true'], pass_fds=(1,))",
             "import pathlib; pathlib.Path('x').write_text('')"):
    try:
        exec(line, {"__name__": "terradask.planted", "__builtins__": __builtins__})
    except Exception as error:
        planted.append(type(error).__name__)

print(json.dumps({
    "failed": failed,
    "commands": commands,
    "refused": refused,
    "own": __import__("os").getpid() in own,
    "planted": planted,
    "flags": [guard.OWN_CONSOLE, guard._OWN_GROUP],
    "checks": {each.check: [each.ok, each.found] for each in examine(TOOLCHAIN)},
    "imported": len([name for name in sys.modules if name.startswith("terradask")]),
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a process finds that sees a library as Windows has it."""
    done = subprocess.run(
        [sys.executable, "-X", "warn_default_encoding", "-W", "ignore", "-c", EVERY_MODULE],
        cwd=tmp_path_factory.mktemp("empty"),
        env={**os.environ, "PYTHONPATH": str(REPOSITORY), "PYTHONIOENCODING": "cp1252"},
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_every_module_of_the_client_is_imported(seen: dict[str, Any]) -> None:
    assert seen["failed"] == {}
    assert seen["imported"] > 400
    assert seen["planted"] == [
        *("ModuleNotFoundError", "AttributeError", "ImportError", "ValueError"),
        "EncodingWarning",
    ]


def test_terraform_is_refused_before_anything_else(seen: dict[str, Any]) -> None:
    assert len(seen["refused"]) == 7
    assert all("WSL" in advice for advice in seen["refused"].values())
    assert seen["commands"] == [3, 3, 3]


def test_the_doctor_asks_for_nothing_that_terraform_needs(seen: dict[str, Any]) -> None:
    checks = seen["checks"]
    assert checks["platform"][0]
    assert checks["platform"][1].startswith("Windows AMD64: attach, compute")
    assert checks.pop("platform")
    assert checks.pop("python")[0]
    assert {"terraform", "provider"} <= checks.keys()
    assert all(each == [True, "not needed on Windows"] for each in checks.values())


def test_processes_are_started_and_found_as_there(seen: dict[str, Any]) -> None:
    assert seen["own"]
    # CREATE_NO_WINDOW, CREATE_NEW_PROCESS_GROUP
    assert seen["flags"] == [0x08000000, 0x200]


# ---- the source ----------------------------------------------------------------------------------


def test_nothing_of_posix_alone_is_used_for_every_platform() -> None:
    tree = repository()
    assert len(list(rules.client_modules(tree))) > 400
    assert rules.posix_alone(tree) == []


def test_every_text_has_an_encoding() -> None:
    assert rules.without_encoding(repository()) == []


@pytest.mark.parametrize(
    ("rule", "text", "found"),
    [
        (rules.posix_alone, "import os\nos.killpg(1, 9)\n", ["2: os.killpg"]),
        (rules.posix_alone, "def a():\n    import fcntl\n", ["2: fcntl"]),
        (rules.posix_alone, "from signal import SIGINT, SIGKILL\n", ["1: signal.SIGKILL"]),
        (
            rules.posix_alone,
            "def a():\n    if sys.platform == 'win32':\n        pass\n    os.fork()\n",
            ["4: os.fork"],
        ),
        (
            rules.posix_alone,
            "import subprocess\nsubprocess.Popen([], start_new_session=True)\n",
            ["2: argument start_new_session"],
        ),
        (rules.posix_alone, "from pathlib import Path\nPath('/dev/null')\n", ["2: path /dev/null"]),
        (rules.without_encoding, "path.write_text('')\n", ["1: path.write_text"]),
        (rules.without_encoding, "open('a', 'w')\n", ["1: open"]),
        (rules.without_encoding, "path.open('r')\n", ["1: path.open"]),
        (rules.without_encoding, "subprocess.run([], text=True)\n", ["1: subprocess.run"]),
        # What is for one platform, or bytes.
        (rules.posix_alone, "import os\nif hasattr(os, 'fork'):\n    os.fork()\n", []),
        (
            rules.posix_alone,
            "def a():\n    if sys.platform == 'win32':\n        return 1\n    return os.getuid()\n",
            [],
        ),
        (
            rules.posix_alone,
            "subprocess.Popen([], start_new_session=True, creationflags=flags)\n",
            [],
        ),
        (
            rules.without_encoding,
            "open('a', 'rb')\npath.open('wb')\nstore.write_text('a', '')\n",
            [],
        ),
    ],
)
def test_a_rule_finds_what_breaks_it(
    tmp_path: Path, rule: Callable[[Tree], list[str]], text: str, found: list[str]
) -> None:
    tree = planted(
        tmp_path, {"cluster/terradask/x.py": text, "host/terradask_host/agent/y.py": text}
    )
    assert rule(tree) == [f"cluster/terradask/x.py:{each}" for each in found]


def test_what_runs_on_every_system_can() -> None:
    """The list of CI's job for macOS and Windows, whose environment has the client alone."""
    listed = (REPOSITORY / "tests/unit/every_system.txt").read_text(encoding="utf-8").split()
    tree = repository()
    beside = {module.where: module for module in tree.beside("tests")}
    assert set(listed) <= beside.keys()
    found = [
        f"{where}:{line}: {what}"
        for where in listed
        for line, what in rules.uses(beside[where].syntax.body)
    ]
    assert found == []
    assert not [where for where in listed if "terradask_simulator" in beside[where].source]


# ---- programs ------------------------------------------------------------------------------------


def test_a_program_is_an_exe_of_a_folder_of_the_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("here/uv.exe", "one/uv.cmd", "one/uv", "two/uv.exe", "three/uv.exe"):
        (tmp_path / place).parent.mkdir(exist_ok=True)
        (tmp_path / place).touch()
    folders = [str(tmp_path / name) for name in ("one", "two", "three")]
    # Neither the working directory's, nor a batch file.
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(programs, "sys", WINDOWS)
    environ = {"PATH": os.pathsep.join([".", "", *folders])}
    assert programs.find_program("uv", environ) == f"{tmp_path}/two/uv.exe"
    assert programs.find_program("UV.EXE".lower(), environ) == f"{tmp_path}/two/uv.exe"
    assert programs.find_program("git", environ) is None
    assert programs.find_program("uv", {}, before=[tmp_path / "three"]) == folders[2] + "/uv.exe"
    kept = programs.environ_for_programs(environ)
    assert kept["PATH"] == os.pathsep.join(folders)
    assert kept["NoDefaultCurrentDirectoryInExePath"] == "1"


def test_no_program_gets_the_default_path_with_the_working_directory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "defpath", f".{os.pathsep}/usr/bin")
    assert programs.environ_for_programs({"PATH": "."})["PATH"] == "/usr/bin"


def test_the_plugin_is_found_where_its_installer_puts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "sys", WINDOWS)
    program = tmp_path / "Amazon/SessionManagerPlugin/bin" / f"{NAME}.exe"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho 1.2.764.0\n")
    program.chmod(0o755)
    environ = {"PATH": "/nowhere", "PROGRAMFILES": str(tmp_path)}
    assert find_plugin(environ).path == str(program)
    with pytest.raises(SetupError, match="isn't on this machine"):
        find_plugin({**environ, "PROGRAMFILES": str(tmp_path / "other")})


@pytest.mark.parametrize("error", [ImportError("No module named 'pwd'"), KeyError(), OSError()])
def test_a_user_without_a_name(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def fail() -> str:
        raise error

    monkeypatch.setattr(processes, "getuser", fail)
    assert processes.user_name() is None


# ---- settings of uv and pip ----------------------------------------------------------------------


def test_settings_of_uv_and_pip_are_read_from_the_folders_of_windows(tmp_path: Path) -> None:
    machine = Machine("win32", tmp_path / "home", tmp_path / "work", tmp_path / "venv")
    environ = {"APPDATA": f"{tmp_path}/roaming", "PROGRAMDATA": f"{tmp_path}/data"}
    texts = {
        "roaming/uv/uv.toml": 'extra-index-url = ["https://of-user"]\n',
        "data/uv/uv.toml": 'extra-index-url = ["https://of-machine"]\n',
        "home/.config/uv/uv.toml": 'extra-index-url = ["https://elsewhere"]\n',
        "data/pip/pip.ini": "[global]\nindex-url = https://of-all\nfind-links = https://links\n",
        "roaming/pip/pip.ini": "[global]\nindex-url = https://of-pip\n",
        "home/.config/pip/pip.conf": "[global]\nindex-url = https://elsewhere\n",
    }
    (tmp_path / "work").mkdir()
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    assert [each.url for each in uv_indexes(environ, machine)] == [
        "https://of-user",
        "https://of-machine",
    ]
    assert [each.url for each in pip_indexes(environ, machine)] == ["https://of-pip"]
    assert find_links(environ, machine) == ["https://links"]
    # Without the variables, below the user's folder.
    assert [each.url for each in pip_indexes({"APPDATA": ""}, machine)] == []
    (tmp_path / "home/pip").mkdir()
    (tmp_path / "home/pip/pip.ini").write_text("[install]\nindex-url = https://of-home\n")
    assert [each.url for each in pip_indexes({}, machine)] == ["https://of-home"]


def test_credentials_of_uv_are_looked_for_in_the_users_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from terradask._software.indexes import credentials
    from terradask._software.indexes.configured import ConfiguredIndex
    from terradask._software.uv import UvOutput

    asked: list[str] = []

    def run_uv(arguments: list[str], environ: dict[str, str], **_: Any) -> UvOutput:
        asked.append(environ["UV_CREDENTIALS_DIR"])
        return UvOutput(1, "")

    monkeypatch.setattr(credentials, "run_uv", run_uv)
    folder = tmp_path / "roaming/uv/data/credentials"
    folder.mkdir(parents=True)
    (folder / "credentials.toml").touch()
    machine = Machine("win32", tmp_path, tmp_path, tmp_path, tmp_path)
    index = ConfiguredIndex("https://index.example.org/simple", "uv.toml")
    environ = {"APPDATA": str(tmp_path / "roaming")}
    assert credentials_for(index.url, None, index, environ, machine).text is None
    assert asked == [str(folder)]


# ---- files ---------------------------------------------------------------------------------------


def test_a_file_that_another_process_reads_is_replaced_a_moment_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[Path] = []
    replace = Path.replace

    def busy_at_first(self: Path, target: Path) -> Path:
        tries.append(self)
        if len(tries) < 3:
            raise PermissionError(errno.EACCES, "in use")
        return replace(self, target)

    monkeypatch.setattr(Path, "replace", busy_at_first)
    monkeypatch.setattr(files, "sys", WINDOWS)
    files.write_whole(tmp_path / "a.json", "{}")
    assert ((tmp_path / "a.json").read_text(), len(tries)) == ("{}", 3)
    monkeypatch.setattr(files, "_PAUSES_SECONDS", ())
    tries.clear()
    with pytest.raises(PermissionError):
        files.write_whole(tmp_path / "b.json", "{}")
    assert [each.name for each in tmp_path.iterdir()] == ["a.json"]


def test_a_script_is_executable_on_hosts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "run.sh").write_text("#!/bin/sh\n")
    (tmp_path / "data.csv").write_text("a,b\n")

    def modes() -> dict[str, int]:
        packed = job_files.pack(job_files.find_files([], tmp_path))
        assert packed is not None
        with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
            contents = {each.name: archive.extractfile(each) for each in archive}
            assert {name: each.read() for name, each in contents.items() if each} == {
                "run.sh": b"#!/bin/sh\n",
                "data.csv": b"a,b\n",
            }
            return {each.name: each.mode for each in archive}

    assert modes() == {"run.sh": 0o644, "data.csv": 0o644}
    monkeypatch.setattr(job_files, "sys", WINDOWS)
    assert modes() == {"run.sh": 0o755, "data.csv": 0o644}


def test_a_path_of_windows_in_a_command_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_files, "Path", PureWindowsPath)
    monkeypatch.setattr(job_files, "_is_file", lambda path: path.suffix == ".csv")
    with pytest.raises(InvalidInput, match="hosts have Linux") as caught:
        job_files.files_of_command(["python", r"data\in.csv"], None)
    assert caught.value.advice == "write data/in.csv"


# ---- output --------------------------------------------------------------------------------------


def test_output_in_an_encoding_that_lacks_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="cp1252"))
    with pytest.raises(UnicodeEncodeError):
        print("→", flush=True)
    _output.tolerate_encoding()
    print("a → b…", end="", flush=True)
    assert written.getvalue() == b"a ? b\x85"


@pytest.mark.parametrize("platform", ["win32", "linux"])
def test_a_reader_that_has_closed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str
) -> None:
    given = SimpleNamespace(platform=platform, stdout=sys.stdout)
    monkeypatch.setattr(_output, "sys", given)
    with (tmp_path / "out").open("w") as stream:
        with _output.until_closed(stream):
            raise BrokenPipeError
        stream.write("dropped")
        stream.flush()
        if platform == "win32":
            with _output.until_closed(stream):
                raise OSError(errno.EINVAL, "Invalid argument")
        else:
            with pytest.raises(OSError, match="Invalid"), _output.until_closed(stream):
                raise OSError(errno.EINVAL, "Invalid argument")
        with pytest.raises(OSError, match="full"), _output.until_closed(stream):
            raise OSError(errno.ENOSPC, "full")
    assert (tmp_path / "out").read_text() == ""
