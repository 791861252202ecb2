"""Synthesis in another Python: the same bytes, the same errors, and what an interruption leaves."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from terradask_modules.errors import InvalidInput, SetupError, TerradaskError
from terradask_stacks import rendering
from terradask_stacks.errors import Finding, SettingsError
from terradask_stacks.host_scripts import HostScript
from terradask_stacks.host_wheel import build_host_wheel
from terradask_stacks.inputs import ClusterInputs, Inputs, inputs_in, inputs_of
from terradask_stacks.rendering import OtherProcess, answer
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize

from .conftest import SynthText, lock_file, settings_of
from .golden_settings import _KEY, CLUSTERS, NETWORKS

HERE = OtherProcess(Path(sys.executable))


def inputs(stack: str, scripts: dict[str, HostScript] | None = None, **given: Any) -> Inputs:
    """Return what `synth_text` synthesises."""
    settings, lock = settings_of(stack, **given)
    clusters = {"etl": settings.cluster}
    return inputs_of(stack, settings, lock, clusters, build_host_wheel(), scripts=scripts or {})


GOLDEN = [("network", name) for name in NETWORKS] + [("etl", name) for name in CLUSTERS]


@pytest.mark.parametrize(("stack", "name"), GOLDEN)
def test_what_another_process_gets_gives_the_same_bytes(
    stack: str, name: str, synth_text: SynthText
) -> None:
    given = (NETWORKS if stack == "network" else CLUSTERS)[name]
    sent = json.dumps({"stacks": [inputs(stack, **given).as_document()], "whose": ""})

    assert answer(json.loads(sent)) == {"texts": {stack: synth_text(stack, **given)}}


def test_everything_that_the_bytes_depend_on_arrives() -> None:
    script = HostScript(b"#!/bin/sh\ntrue\n", 60)
    for one in (
        inputs("network", scripts={"startup_script": script}, network={"cidr": "10.9.0.0/16"}),
        inputs("etl", cluster={"max_workers": 7}, network={"kms_key_arn": _KEY}),
    ):
        arrived = inputs_in(json.loads(json.dumps(one.as_document())))
        assert arrived.facts() == one.facts()
        assert arrived.as_document() == one.as_document()


class This:
    """This Python as the other one."""

    def get(self) -> Path:
        return HERE.python

    def versions(self) -> Mapping[str, str]:
        return HERE.versions()


def test_another_python_writes_the_same_folders(tmp_path: Path) -> None:
    lock, clusters = lock_file(), {"etl": ClusterSettings()}
    written = {}
    for name, other in (("here", None), ("other", This())):
        folders = synthesize(
            Settings(), lock, out_dir=tmp_path / name, clusters=clusters, other_python=other
        )
        written[name] = {
            str(path.relative_to(tmp_path / name)): path.read_bytes()
            for path in sorted((tmp_path / name).rglob("*"))
            if path.is_file()
        }
        assert folders.keys() == {"network", "etl"}
    assert written["here"] == written["other"]


def test_another_process_imports_terradasks_code_and_nothing_else_of_the_users(
    tmp_path: Path,
) -> None:
    """No module of the user's environment hides one of the framework's."""
    planted = tmp_path / "planted"
    planted.mkdir()
    (planted / "jsii.py").write_text("raise SystemExit('the planted one')\n")
    (planted / "sitecustomize.py").write_text("raise SystemExit('the planted one')\n")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("PYTHONPATH", str(planted))
        patched.setenv("AWS_SECRET_ACCESS_KEY", "not-for-it")
        patched.chdir(planted)
        assert "AWS_SECRET_ACCESS_KEY" not in rendering._environ()
        HERE.versions()


def test_an_error_arrives_with_its_class_and_fields() -> None:
    one = inputs("etl")
    assert isinstance(one, ClusterInputs)
    with pytest.raises(InvalidInput, match="can't be synthesised") as error:
        HERE.render([ClusterInputs(**{**vars(one), "name": "a name"})], whose="a, b")
    assert (type(error.value), error.value.given) == (InvalidInput, "a, b")
    assert "Traceback" in str(error.value.__cause__)


@pytest.mark.parametrize(
    "error",
    [
        InvalidInput("it can't", given=3, allowed="2", advice="give 2"),
        SetupError("it is missing", advice="install it"),
        SettingsError([Finding(where="network.cidr", problem="too small", given="10.0.0.0/30")]),
    ],
)
def test_each_class_of_error_arrives_whole(
    error: TerradaskError, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("terradask_stacks.app.render", failing)
    sent = answer({"stacks": [inputs("etl").as_document()], "whose": ""})
    arrived = rendering._error_in(json.loads(json.dumps(sent)))
    assert (type(arrived), str(arrived)) == (type(error), str(error))
    assert arrived.as_dict() == error.as_dict()


def test_a_python_without_the_framework_is_named_with_what_it_lacks(tmp_path: Path) -> None:
    empty = tmp_path / "empty"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", empty], check=True)
    with pytest.raises(SetupError) as error:
        OtherProcess(empty / "bin/python").versions()
    assert f"{empty}/bin/python: no cdktf, no cdktf-cdktf-provider-aws" in str(error.value)
    assert "pip install 'terradask[deploy]'" in str(error.value)

    metadata = next((empty / "lib").iterdir()) / "site-packages/cdktf-0.20.0.dist-info/METADATA"
    metadata.parent.mkdir()
    metadata.write_text("Metadata-Version: 2.1\nName: cdktf\nVersion: 0.20.0\n")
    with pytest.raises(SetupError, match=r"cdktf 0\.20\.0, not 0\.21\.0"):
        OtherProcess(empty / "bin/python").versions()


def test_a_python_that_is_gone_or_fails_is_an_error_of_ours(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match="No such file"):
        OtherProcess(tmp_path / "python").versions()
    failing = tmp_path / "failing"
    failing.write_text("#!/bin/sh\necho one; echo two >&2; exit 7\n")
    failing.chmod(0o755)
    with pytest.raises(TerradaskError, match="ended with 7") as error:
        OtherProcess(failing).versions()
    assert error.value.given == f"{failing}\none\ntwo"


@pytest.mark.life
def test_it_unpacks_the_bindings_before_the_first_synthesis(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JSII_RUNTIME_PACKAGE_CACHE_ROOT", str(tmp_path))
    process = HERE.unpack()
    # Ctrl-C, which ends this process, leaves that one.
    assert os.getpgid(process.pid) != os.getpgid(0)
    assert process.wait() == 0
    (bindings,) = tmp_path.glob("@cdktf/provider-aws/*/*/lib/index.js")
    before = bindings.stat().st_mtime_ns
    assert HERE.unpack().wait() == 0
    assert bindings.stat().st_mtime_ns == before


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of temporary files, alone."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_an_interruption_ends_the_process_and_leaves_no_file(
    tmp_path: Path, temporary: Path
) -> None:
    hangs = tmp_path / "hangs"
    hangs.write_text("#!/bin/sh\nexec sleep 600\n")
    hangs.chmod(0o755)
    me = psutil.Process()
    main, frames = threading.get_ident(), sys._current_frames

    def interrupt() -> None:
        while not (found := [one for one in me.children() if "sleep" in one.name()]):
            time.sleep(0.02)
        # Until then, Popen itself isn't through with the start of the process.
        while "wait" not in [f.f_code.co_name for f, _ in traceback.walk_stack(frames()[main])]:
            time.sleep(0.02)
        # A terminal's Ctrl-C goes to this process's group, in which the other isn't.
        assert os.getpgid(found[0].pid) != os.getpgid(0)
        children.extend(found)
        signal.pthread_kill(main, signal.SIGINT)

    children: list[psutil.Process] = []
    thread = threading.Thread(target=interrupt)
    thread.start()
    with pytest.raises(KeyboardInterrupt):
        OtherProcess(hangs).versions()
    thread.join()
    assert not children[0].is_running()
    assert list(temporary.iterdir()) == []
