"""`terradask init` asks in a terminal, writes some lines, and leaves nothing when interrupted."""

from __future__ import annotations

import http.server
import json
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from terradask.cli._app import command
from terradask.errors import InvalidInput, RegionUnusable
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import Settings

ADDRESS = "TERRADASK_WORKSPACE__OWN_ADDRESS_URL"


class _Address(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"203.0.113.9\n")

    def log_message(self, *_: object) -> None:
        """Print nothing."""


@pytest.fixture
def own_address(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with http.server.HTTPServer(("127.0.0.1", 0), _Address) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        monkeypatch.setenv(ADDRESS, f"http://127.0.0.1:{server.server_port}/")
        yield
        server.shutdown()
        thread.join()


def run(*options: str, typed: str | None = None, **more: Any) -> Any:
    return CliRunner().invoke(command, ["init", *options], input=typed, **more)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")


def settings() -> Settings:
    return load_settings(Path("terradask.toml"), environ={}).settings


def asked(monkeypatch: pytest.MonkeyPatch, typed: str) -> Any:
    monkeypatch.setattr("terradask.cli._init._is_terminal", lambda: True)
    return run(typed=typed)


@pytest.mark.usefixtures("own_address")
def test_in_a_terminal_enter_takes_what_is_in_brackets(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, "\n\n\n\n")
    assert found.exit_code == 0, found.output
    assert "AWS region [eu-west-1]" in found.output
    assert len(Path("terradask.toml").read_text().splitlines()) <= 10
    given = settings()
    assert (given.workspace.name, given.workspace.region) == ("default", "eu-west-1")
    (rule,) = given.network.ingress
    assert (rule.cidr, rule.ports) == ("203.0.113.9/32", ["8786-8787"])
    assert given.state.bucket is None


def test_a_wrong_answer_is_asked_again(monkeypatch: pytest.MonkeyPatch) -> None:
    typed = "A_B\nresearch\nus-east-2\nhome\n198.51.100.7\nBucket_\nmy-states\n"
    found = asked(monkeypatch, typed)
    assert found.exit_code == 0, found.output
    assert "the workspace's name can't be used" in found.output
    assert "'home' does not appear to be an IPv4 or IPv6 network\n  given: home\n" in found.output
    assert "'Bucket_' is not the name of an S3 bucket" in found.output
    assert found.output.count("state's bucket") == 0
    given = settings()
    assert (given.workspace.name, given.workspace.region) == ("research", "us-east-2")
    assert [rule.cidr for rule in given.network.ingress] == ["198.51.100.7/32"]
    assert given.state.bucket == "my-states"


def test_enter_does_not_repeat_a_default_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ADDRESS, "http://127.0.0.1:1/")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "nowhere")
    found = asked(monkeypatch, "\n\n\nus-east-2\n\n\nME\nSSM\n\n")
    assert found.exit_code == 0, found.output
    assert found.output.count("[nowhere]: ") == found.output.count("[me]: ") == 1
    assert "to do: answer with this machine's IPv4 address, ssm or none" in found.output
    assert "allow_ingress_from" not in found.output
    assert found.output.count("Your own address can't be found") == 2
    assert (settings().workspace.region, settings().cluster.connect) == ("us-east-2", "ssm")


def test_questions_fit_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    found = asked(monkeypatch, "\nap-southeast-1\nnone\n\n")
    assert found.exit_code == 0, found.output
    assert max(map(len, found.output.splitlines())) < 80


@pytest.mark.parametrize(
    ("clients", "why"),
    [
        ("2001:db8::1", "schedulers are reached over IPv4, and this is IPv6"),
        ("2001:db8::1/56", "schedulers are reached over IPv4, and this is IPv6"),
        ("everyone", "'everyone' does not appear to be"),
        ("203.0.113.7/24", "203.0.113.7/24 has host bits set"),
    ],
)
def test_a_wrong_address_is_shown_as_given(clients: str, why: str) -> None:
    error = run("--clients", clients).exception
    assert isinstance(error, InvalidInput)
    assert why in error.problem
    assert error.given == clients
    assert "a block such as 203.0.113.0/24, me, ssm or none" in str(error.allowed)


@pytest.mark.parametrize("word", ["none", "no", "me", "ssm", "None"])
def test_an_answer_to_another_question_is_no_bucket(
    word: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = asked(monkeypatch, f"\n\nnone\n{word}\n\n")
    assert f"'{word}' is not taken for a bucket's name" in found.output
    assert "own (Enter), which the first plan creates" in found.output
    assert settings().state.bucket is None


def test_a_region_that_aws_does_not_have_is_refused() -> None:
    error = run("--region", "eu-cental-1").exception
    assert isinstance(error, RegionUnusable)
    assert "eu-central-1" in str(error.allowed)


def test_a_folder_without_the_right_to_write_is_refused_before_the_first_question(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("os.access", lambda _path, mode: mode != os.W_OK)
    found = asked(monkeypatch, "")
    assert isinstance(found.exception, InvalidInput)
    assert f"no right to write in {tmp_path}" in str(found.exception)
    assert "Enter takes" not in found.output


def test_a_file_in_place_of_the_folder_is_an_error_with_advice() -> None:
    Path("taken").touch()
    error = run("--out", "taken/team").exception
    assert isinstance(error, InvalidInput)
    assert "write it to another folder with --out" in str(error)


def test_an_interruption_leaves_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    # While the third question is answered.
    with monkeypatch.context() as patched:
        patched.setattr("terradask.cli._init._own_block", stop)
        assert asked(patched, "research\n\nme\n").exit_code != 0
    assert list(tmp_path.iterdir()) == []

    monkeypatch.setattr("pathlib.Path.chmod", stop)
    assert run("--yes").exit_code != 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "options", [(), ("--yes",), ("--json",), ("--name", "research"), ("--all",)]
)
def test_scripts_and_options_are_not_asked(
    options: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    # Without options, a terminal is missing.
    monkeypatch.setattr("terradask.cli._init._is_terminal", lambda: bool(options))
    found = run(*options)
    assert found.exit_code == 0, found.output
    assert "Enter takes" not in found.output
    assert settings().network.ingress == []
    assert settings().workspace.name == ("research" if "research" in options else "default")


def test_options_are_answers_also_in_the_file_with_all_settings() -> None:
    given = ("--name", "research", "--region", "eu-central-1", "--state-bucket", "my-states")
    for every in ((), ("--all", "--force")):
        found = run(*given, "--clients", "203.0.113.0/24", "--json", *every)
        assert found.exit_code == 0, found.output
        assert json.loads(found.stdout) == {
            "path": str(Path("terradask.toml").absolute()),
            "name": "research",
            "region": "eu-central-1",
            "clients": "203.0.113.0/24",
            "state_bucket": "my-states",
        }
        now = settings()
        assert now.workspace.region == "eu-central-1"
        assert [rule.cidr for rule in now.network.ingress] == ["203.0.113.0/24"]
        assert now.state.bucket == "my-states"
    assert len(Path("terradask.toml").read_text().splitlines()) > 300
    assert run("--clients", "ssm", "--force").exit_code == 0
    assert settings().network.session_manager
    assert settings().cluster.connect == "ssm"
    assert settings().network.ingress == []


def test_an_existing_file_is_refused_before_the_first_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    Path("terradask.toml").write_text("[workspace]\n")
    found = asked(monkeypatch, "")
    assert isinstance(found.exception, InvalidInput)
    assert "overwrite it with --force" in str(found.exception)
    assert "Enter takes" not in found.output
    assert Path("terradask.toml").read_text() == "[workspace]\n"
    assert isinstance(run("--clients", "nobody", "--force").exception, InvalidInput)
    assert Path("terradask.toml").read_text() == "[workspace]\n"


def test_regions_and_clients_are_completed() -> None:
    def complete(words: str) -> list[str]:
        environ = {"_TERRADASK_COMPLETE": "bash_complete", "COMP_WORDS": words}
        place = {"COMP_CWORD": str(len(words.split()) - 1)}
        found = CliRunner().invoke(command, prog_name="terradask", env={**environ, **place})
        return [line.partition(",")[2] for line in found.stdout.splitlines()]

    assert "eu-central-1" in complete("terradask init --region eu-c")
    assert complete("terradask init --clients s") == ["ssm"]
