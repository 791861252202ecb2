"""`terradask debug` where AWS refuses everything or answers nothing, or settings are wrong."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from ..light_environment import light_environment, only_programs
from ..waiting import PROCESS_SECONDS

pytestmark = pytest.mark.life

#: For an AWS that answers nothing: a busy machine needs a few for its own part.
SILENT_SECONDS = 12

#: Answers of EC2's, S3's and STS's protocol.
_REFUSAL = (
    b"<ErrorResponse><Error><Code>AccessDenied</Code><Message>User: ada is not "
    b"authorized to perform that, with token=s3cr3t-of-the-refusal</Message></Error>"
    b"</ErrorResponse>"
)


class _Refusing(BaseHTTPRequestHandler):
    def _answer(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(403)
        self.send_header("Content-Length", str(len(_REFUSAL)))
        self.end_headers()
        self.wfile.write(_REFUSAL)

    do_GET = do_POST = do_PUT = do_HEAD = _answer  # noqa: N815

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def refusing() -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture
def silent() -> Iterator[str]:
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


def debug(
    folder: Path,
    endpoint: str,
    *options: str,
    code: int = 0,
    python: str = sys.executable,
    **environ: str,
) -> tuple[dict[str, Any], str]:
    """Run the command; return its JSON, and what it wrote to standard error."""
    kept = ("PATH", "SYSTEMROOT", "TEMP", "LANG", "TF_CLI_CONFIG_FILE")
    variables = {name: os.environ[name] for name in kept if name in os.environ}
    variables |= {
        "HOME": str(folder),
        "AWS_ENDPOINT_URL": endpoint,
        "AWS_ACCESS_KEY_ID": "x",
        "AWS_SECRET_ACCESS_KEY": "s3cr3t-of-the-caller",
        "AWS_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        **environ,
    }
    command = [python, "-m", "terradask", "debug", "etl", "--json", *options]
    done = subprocess.run(
        command,
        cwd=folder,
        env=variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return json.loads(done.stdout if code == 0 else done.stderr), done.stderr


def texts(path: Path) -> dict[str, str]:
    with zipfile.ZipFile(path) as packed:
        return {name.partition("/")[2]: packed.read(name).decode() for name in packed.namelist()}


def test_an_aws_that_refuses_everything(tmp_path: Path, refusing: str) -> None:
    made, errors = debug(tmp_path, refusing, "--seconds=30", "-o", "a.zip")
    assert made["path"] == "a.zip"
    assert {one["file"] for one in made["files"]} >= {"versions.json", "settings.json"}
    reasons = {one["file"]: one["why"] for one in made["missing"]}
    assert set(reasons) >= {"status.json", "events.txt", "logs/workers.txt", "states/etl.json"}
    assert all("AWS" in why or "refused" in why or "denies" in why for why in reasons.values())
    assert made["verdict"][0].startswith("etl: its status could not be read: ")
    assert errors.count("not read: ") <= 4
    everything = "\n".join([*texts(tmp_path / "a.zip").values(), json.dumps(made), errors])
    assert "s3cr3t" not in everything


def test_an_aws_that_answers_nothing(tmp_path: Path, silent: str) -> None:
    made, errors = debug(
        tmp_path, silent, f"--seconds={SILENT_SECONDS}", "--no-plan", "-o", "a.zip"
    )
    reasons = {one["why"] for one in made["missing"]}
    assert f"no answer within {SILENT_SECONDS} seconds from AWS ({silent})" in reasons
    assert "in the file all the same: versions.json, doctor/machine.json" in errors
    assert {"versions.json", "doctor/machine.json"} <= texts(tmp_path / "a.zip").keys()


def test_a_client_without_terraform(tmp_path: Path, refusing: str) -> None:
    python = str(light_environment(tmp_path / "light"))
    here = {"PATH": str(only_programs(tmp_path / "bin"))}
    made, _ = debug(tmp_path, refusing, "--seconds=30", "-o", "a.zip", python=python, **here)
    found = texts(tmp_path / "a.zip")
    assert "neither terraform nor tofu" in json.loads(found["versions.json"])["terraform"]
    assert "doctor/machine.json" in found
    reasons = {one["file"]: one["why"] for one in made["missing"]}
    assert "terradask plan etl makes it" in reasons["plan.md"]


def test_settings_that_cannot_be_used_are_the_reason(tmp_path: Path, refusing: str) -> None:
    (tmp_path / "terradask.toml").write_text('[workspace]\nregio = "x"\n')
    made, _ = debug(tmp_path, refusing, "-o", "a.zip")
    assert "regio" in made["verdict"][0]
    machine, account = "doctor/machine.json", "doctor/account.json"
    assert {one["file"] for one in made["files"]} == {"versions.json", machine, account}


def test_a_name_that_no_cluster_has_and_a_path_that_is_taken(tmp_path: Path, refusing: str) -> None:
    (tmp_path / "a.zip").write_text("mine")
    made, _ = debug(tmp_path, refusing, "--no-plan", "-o", "a.zip", code=2)
    assert "another path" in json.dumps(made)
    assert (tmp_path / "a.zip").read_text() == "mine"
    made, _ = debug(tmp_path, refusing, "--no-plan", "-o", str(tmp_path))
    assert Path(made["path"]).parent == tmp_path
    command = [sys.executable, "-m", "terradask", "debug", "../../etl"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "lower-case" in done.stderr


#: The answer to a session that is over.
_EXPIRED = _REFUSAL.replace(b"AccessDenied", b"ExpiredToken")


@pytest.mark.parametrize(
    ("how", "text"),
    [
        ("none", "there are no AWS credentials"),
        ("expired", "the AWS credentials have expired"),
        # boto3 tries again for longer.
        ("unreachable", f"no answer within {SILENT_SECONDS} seconds"),
    ],
)
def test_without_credentials_or_a_network_the_zip_has_this_machines_part(
    tmp_path: Path, refusing: str, monkeypatch: pytest.MonkeyPatch, how: str, text: str
) -> None:
    given: dict[str, str] = {}
    if how == "none":
        given = {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}
    elif how == "expired":
        monkeypatch.setattr(sys.modules[__name__], "_REFUSAL", _EXPIRED)
    endpoint = "http://127.0.0.1:9" if how == "unreachable" else refusing
    seconds = f"--seconds={SILENT_SECONDS if how == 'unreachable' else 30}"
    made, errors = debug(tmp_path, endpoint, seconds, "--no-plan", "-o", "a.zip", **given)
    assert text in made["verdict"][0]
    assert {"versions.json", "doctor/machine.json"} <= texts(tmp_path / "a.zip").keys()
    assert len(errors.splitlines()) < 12
    assert "s3cr3t" not in errors + json.dumps(made)


def test_an_interrupt_leaves_no_zip_and_ends_at_once(tmp_path: Path, silent: str) -> None:
    variables = {**os.environ, "HOME": str(tmp_path), "AWS_ENDPOINT_URL": silent}
    variables |= {"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_REGION": "us-east-1"}
    command = [sys.executable, "-m", "terradask", "debug", "etl", "--no-plan", "--seconds=100"]
    process = subprocess.Popen(
        command, cwd=tmp_path, env=variables, stderr=subprocess.PIPE, text=True
    )
    assert process.stderr is not None
    with process:
        for line in process.stderr:
            if "read" in line:
                break
        began = time.monotonic()
        process.send_signal(signal.SIGINT)
        said = process.stderr.read()
    assert process.returncode == 130
    # It would have waited for AWS until then.
    assert time.monotonic() - began < 60
    assert "interrupted" in said
    assert "Traceback" not in said
    assert list(tmp_path.glob("*.zip")) == []
