"""Package indexes of uv's and pip's configuration, and the hosts that ask the same ones."""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from terradask._clusters.certificates import make_keys
from terradask._observe.keys import KeySet
from terradask._software.client_versions import lock_software
from terradask._software.indexes.configured import Machine
from terradask._software.indexes.indexes import PUBLIC, Indexes, read_indexes
from terradask._software.lock import SoftwareLock
from terradask._software.package_sync import describe_loopback, lock_environment
from terradask._software.resolver import Resolver
from terradask._software.sync import PackageSync
from terradask.errors import SoftwareNotResolved, SoftwareUnusable
from terradask_host.agent.environment import Environment, index_environ, without_credentials
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import Paths
from terradask_host.errors import ConfigInvalid, EnvironmentFailed

from ..package_index import publish, serving
from ..waiting import PROCESS_SECONDS
from .test_package_sync import client

TOKEN = "t0ken-0f-the-team"
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"
Read = Callable[..., Indexes]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A Linux machine without any configuration."""
    for name in ("home", "project", "env", "root"):
        (tmp_path / name).mkdir()
    folders = (tmp_path / name for name in ("home", "project", "env", "root"))
    return Machine("linux", *folders)


@pytest.fixture
def read(machine: Machine) -> Read:
    return lambda **variables: read_indexes(variables, machine)


def put(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def urls(indexes: Indexes) -> list[str]:
    return [each.url for each in indexes.every]


def test_without_any_configuration_the_image_decides(read: Read) -> None:
    found = read()
    assert (found.tool, urls(found), found.options()) == (None, [PUBLIC], ())


def test_uvs_variables_and_files_are_asked_in_its_order(read: Read, machine: Machine) -> None:
    put(
        machine.folder / "pyproject.toml",
        '[[tool.uv.index]]\nname = "team"\nurl = "https://team/simple"\n'
        '[[tool.uv.index]]\nname = "only"\nurl = "https://only/simple"\nexplicit = true\n',
    )
    put(
        machine.home / ".config/uv/uv.toml",
        '[[index]]\nurl = "https://mine/simple"\n'
        '[[index]]\nurl = "https://default/simple"\ndefault = true\n',
    )
    found = read(UV_INDEX="named=https://first/simple https://second/simple/")
    assert urls(found) == [
        f"https://{name}/simple" for name in ("first", "second", "team", "only", "mine", "default")
    ]
    assert found.options() == (
        *(f"--index=https://{name}/simple" for name in ("first", "second", "team", "mine")),
        "--default-index=https://default/simple",
    )
    assert read(UV_NO_CONFIG="1").tool is None


def test_uvs_settings_count_before_pips(read: Read, machine: Machine) -> None:
    put(machine.prefix / "pip.conf", "[global]\nindex-url = https://pips/simple\n")
    assert read().tool == "pip"
    assert urls(read(UV_DEFAULT_INDEX="https://uvs/simple")) == ["https://uvs/simple"]


def test_pips_files_are_read_as_pip_reads_them(
    machine: Machine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ask pip itself; the last file that names an option counts, then the variable."""
    put(
        tmp_path / "system/pip/pip.conf",
        "[global]\nindex-url = https://a/simple\nextra_index_url = https://b/simple\n",
    )
    put(
        machine.home / ".config/pip/pip.conf",
        "[global]\nindex-url = https://c/simple\n"
        "extra-index-url =\n    https://d/simple\n    https://e/simple\n",
    )
    named = put(tmp_path / "named.conf", "[global]\nindex-url = https://f/simple\n")
    for name in [name for name in os.environ if name.startswith(("PIP_", "XDG_"))]:
        monkeypatch.delenv(name)
    for more in ({}, {"PIP_CONFIG_FILE": str(named)}):
        environ = {"HOME": str(machine.home), "XDG_CONFIG_DIRS": str(tmp_path / "system"), **more}

        said = subprocess.run(
            [sys.executable, "-m", "pip", "config", "debug"],
            env=os.environ | environ,
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        kinds = dict(re.findall(r"^(global|user|site|env):\n((?: .*\n)*)", said, re.MULTILINE))
        settings: dict[str, str] = {}
        for kind in ("global", "user", "site", "env"):
            each = r"global\.([a-z-]+): ((?:.|\n(?=\s+https))*)"
            settings |= dict(re.findall(each, kinds.get(kind, "")))
        found = read_indexes(environ, replace(machine, prefix=Path(sys.prefix)))
        expected = [*settings["extra-index-url"].split(), settings["index-url"]]
        assert (found.tool, urls(found)) == ("pip", expected)
    given = {**environ, "PIP_INDEX_URL": "https://g/simple"}
    assert urls(read_indexes(given, machine))[-1] == "https://g/simple"


@pytest.mark.parametrize(
    ("platform", "path", "variables"),
    [
        ("linux", "root/etc/pip.conf", {}),
        ("linux", "home/.pip/pip.conf", {}),
        ("darwin", "home/Library/Application Support/pip/pip.conf", {}),
        ("darwin", "root/Library/Application Support/pip/pip.conf", {}),
        ("linux", "env/pip.conf", {}),
    ],
)
def test_pips_files_are_where_each_system_has_them(
    machine: Machine, tmp_path: Path, platform: str, path: str, variables: Mapping[str, str]
) -> None:
    put(tmp_path / path, "[global]\nindex-url = https://own/simple\n")
    environ = {name: str(tmp_path / value) for name, value in variables.items()}
    assert urls(read_indexes(environ, replace(machine, platform=platform))) == [
        "https://own/simple"
    ]


def test_the_public_index_follows_those_of_the_team(read: Read) -> None:
    found = read(PIP_EXTRA_INDEX_URL="https://team/simple")
    assert found.options() == ("--index=https://team/simple", "--default-index=public")
    assert found.environ({}) == {"UV_INDEX": "https://team/simple"}
    # What the tool's own default index has.
    assert found.options("https://pub/simple") == ("--default-index=https://pub/simple",)
    assert read().options("https://pub/simple") == ()


def test_a_folder_of_this_machine_is_no_index_of_hosts(read: Read) -> None:
    found = read(PIP_EXTRA_INDEX_URL="file:///opt/simple")
    assert (found.options(), found.as_dicts()[0]["hosts"]) == ((), "never")
    assert read(PIP_INDEX_URL="https://x/simple", PIP_NO_INDEX="1").tool is None


def planted(read: Read, machine: Machine, where: str, tmp_path: Path) -> Indexes:
    """Put the token where it may be configured."""
    if where == "URL":
        return read(PIP_INDEX_URL=f"https://me:{TOKEN}@team/simple")
    if where == "netrc":
        put(machine.home / ".netrc", f"machine team login me password {TOKEN}\n")
        return read(PIP_INDEX_URL="https://team/simple")
    if where == "variables":
        return read(
            UV_DEFAULT_INDEX="my-team=https://team/simple",
            UV_INDEX_MY_TEAM_USERNAME="me",
            UV_INDEX_MY_TEAM_PASSWORD=TOKEN,
        )
    program = put(tmp_path / "bin/keyring", f'#!/bin/sh\n[ "$2 $3" = "team me" ] && echo {TOKEN}\n')
    program.chmod(0o700)
    return read(
        PATH=f"{program.parent}:{os.environ['PATH']}",
        UV_DEFAULT_INDEX="https://me@team/simple",
        UV_KEYRING_PROVIDER="subprocess",
    )


@pytest.mark.parametrize("where", ["URL", "netrc", "variables", "keyring"])
def test_credentials_are_found_and_shown_nowhere(
    read: Read, machine: Machine, where: str, tmp_path: Path
) -> None:
    found = planted(read, machine, where, tmp_path)
    assert found.credentials(found.options()) == {"https://team/simple": f"me:{TOKEN}"}
    assert found.options() == ("--default-index=https://team/simple",)
    assert found.as_dicts()[0]["credentials"]
    assert TOKEN not in f"{found!r} {found.as_dicts()} {found.options()}"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pip.conf", f"https://me:{TOKEN}@team/simple\n"),
        ("uv.toml", f'index-url = "https://me:{TOKEN}@team/simple\n'),
        ("uv.toml", f'[[index]]\nname = "{TOKEN}"\n'),
        ("uv.toml", f'index-url = "https://me:{TOKEN}@[team/simple"\n'),
    ],
)
def test_a_file_that_cant_be_read_is_named_without_its_content(
    read: Read, tmp_path: Path, name: str, text: str
) -> None:
    path = put(tmp_path / name, text)
    variable = "PIP_CONFIG_FILE" if name == "pip.conf" else "UV_CONFIG_FILE"
    with pytest.raises(SoftwareUnusable, match=re.escape(str(path))) as caught:
        read(**{variable: str(path)})
    assert TOKEN not in f"{caught.value!r} {caught.value} {caught.value.__cause__}"


def test_the_secret_has_credentials_and_no_repr_shows_them() -> None:
    keys = replace(make_keys("etl", "run"), indexes={"https://team/simple": f"me:{TOKEN}"})
    assert json.loads(json.dumps(keys.to_document()))["indexes"] == keys.indexes
    assert KeySet.from_document(keys.to_document()) == keys
    lock = SoftwareLock("3.12", {"a": "1"}, credentials=keys.indexes)
    assert TOKEN not in f"{keys!r} {lock!r} {lock.to_requirements()}"


@pytest.fixture
def asked() -> list[str]:
    """The paths that the public index was asked for."""
    return []


@pytest.fixture
def team(tmp_path: Path, asked: list[str]) -> Iterator[tuple[str, str]]:
    """The team's index, which demands credentials, and a public one with an attacker's package."""
    publish(tmp_path / "team", "acme-tools", "1.0", body="print('ours')")
    publish(tmp_path / "public", "acme-tools", "9.0", body="raise SystemExit('attacked')")
    publish(tmp_path / "public", "acme-tools", "1.0", body="raise SystemExit('a')", beside=True)
    publish(tmp_path / "public", "dask", "1.0")
    with (
        serving(tmp_path / "team", user=f"me:{TOKEN}") as team,
        serving(tmp_path / "public", asked) as public,
    ):
        yield team, public


@pytest.fixture
def environ(team: tuple[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The variables of a client with both in pip's configuration, and packages of both."""
    private, public = team
    variables = client(public, tmp_path / "cache")
    del variables["UV_DEFAULT_INDEX"]
    for name in [name for name in os.environ if name.startswith(("PIP_", "UV_"))]:
        monkeypatch.delenv(name)
    conf = put(
        tmp_path / "pip.conf",
        f"[global]\nindex-url = {public}\n"
        f"extra-index-url = {private.replace('://', f'://me:{TOKEN}@')}\n",
    )
    for name in ("dask", "acme_tools"):
        put(tmp_path / f"site/{name}-1.0.dist-info/METADATA", f"Name: {name}\nVersion: 1.0\n")
        put(tmp_path / f"site/{name}-1.0.dist-info/RECORD", "")
    found = list(importlib.metadata.distributions(path=[str(tmp_path / "site")]))
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    monkeypatch.setenv("UV_PYTHON_PREFERENCE", "only-system")
    return {**variables, "PIP_CONFIG_FILE": str(conf)}


def host_builds(tmp_path: Path, lock: str, credentials: Mapping[str, str], log: list[str]) -> Path:
    return Environment(
        Paths(tmp_path / "host"),
        PYTHON,
        lock,
        events=EventQueue(),
        log=log.append,
        deadline_seconds=PROCESS_SECONDS,
        credentials=credentials,
    ).build()


def test_hosts_take_each_package_from_the_index_that_has_it_here(
    team, environ, asked, tmp_path
) -> None:
    """The public index is asked for no name that the team's index has, neither here nor there."""
    private, public = team
    lock = lock_environment(PackageSync(), "x86_64", environ)
    text, log = lock.to_requirements(), []
    assert f"acme-tools==1.0 --index={private} --hash=" in text
    assert f"dask==1.0 --default-index={public} --hash=" in text
    assert lock.credentials == {private: f"me:{TOKEN}"}
    assert "127.0.0.1" in describe_loopback(lock.loopback)
    python = host_builds(tmp_path, text, lock.credentials, log)
    done = subprocess.run(
        [python, "-c", "import dask, acme_tools"], capture_output=True, check=False
    )
    assert done.stdout == b"ours\n", done.stderr
    assert asked
    assert not any("acme" in path for path in asked)
    # Nothing that the installer leaves has the token, nor do its command lines.
    assert TOKEN not in text + "".join(log)
    for path in (tmp_path / "host").rglob("*"):
        if path.is_file() and not path.is_symlink():
            assert TOKEN.encode() not in path.read_bytes(), path


def test_packages_that_software_names_are_asked_of_the_same_indexes(
    team, environ, asked, tmp_path, monkeypatch
) -> None:
    for name in ("PIP_CONFIG_FILE", "UV_NO_CONFIG"):
        monkeypatch.setenv(name, environ[name])
    monkeypatch.setattr("terradask._software.client_versions.base", list)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    lock = lock_software(["acme-tools"])
    (line,) = lock.to_requirements().splitlines()
    assert line == f"acme-tools==1.0 --index={team[0]} --default-index={team[1]}"
    python = host_builds(tmp_path, line, lock.credentials, [])
    done = subprocess.run([python, "-c", "import acme_tools"], capture_output=True, check=False)
    assert done.stdout == b"ours\n", done.stderr
    assert not asked


@pytest.mark.parametrize("denial", [401, 403, 500])
def test_an_index_that_does_not_answer_is_named_here_and_no_other_is_asked(
    environ, team, asked, denial, tmp_path
) -> None:
    publish(tmp_path / "other", "acme-tools", "1.0")
    with serving(tmp_path / "other", user="me:other", denial=denial) as url:
        variables = environ | {
            "PIP_EXTRA_INDEX_URL": url.replace("://", f"://me:{TOKEN}@"),
            "UV_HTTP_RETRIES": "0",
        }
        with pytest.raises(SoftwareNotResolved, match=str(denial)) as caught:
            lock_environment(PackageSync(), "x86_64", variables)
    assert url in str(caught.value)
    assert caught.value.unanswered
    assert TOKEN not in str(caught.value)
    assert not any("acme" in path for path in asked)


def test_a_token_that_an_index_refuses_is_not_in_the_hosts_report(team, environ, tmp_path) -> None:
    private, log = team[0], []
    line = f"acme-tools==1.0 --index={private}"
    with pytest.raises(EnvironmentFailed) as caught:
        host_builds(tmp_path, line, {private: "me:wr0ng-t0ken"}, log)
    said = f"{caught.value} {''.join(log)}"
    assert private in said
    assert "401" in said
    assert "wr0ng" not in said


def test_what_only_the_installer_may_know_is_taken_out_of_its_words() -> None:
    known = {"https://a": "me:s%2Fcret", "https://b": "t0ken"}
    assert without_credentials("s/cret s%2Fcret t0ken me", known) == "*** *** *** me"


def test_the_images_index_stays_in_place_of_a_default_one() -> None:
    image = {"UV_DEFAULT_INDEX": "https://image/simple", "UV_INDEX": "https://more/simple"}
    default = " --default-index=https://mine/simple"
    credentials = {"https://mine/simple": "me:x"}
    assert index_environ("", image, credentials) == image
    assert index_environ(default, image, credentials) == image
    assert index_environ(default, {}, credentials) == {
        "UV_DEFAULT_INDEX": "https://me:x@mine/simple"
    }
    public = " --index=https://mine/simple --default-index=public"
    assert index_environ(public, {}, {}) == {"UV_INDEX": "https://mine/simple"}
    assert index_environ(public, {"UV_DEFAULT_INDEX": "https://image/simple"}, {}) == {
        "UV_INDEX": "https://mine/simple",
        "UV_DEFAULT_INDEX": "https://image/simple",
    }
    # What has an index of its own is never asked elsewhere.
    assert index_environ(" --index=https://mine/simple", image, credentials) == {
        "UV_DEFAULT_INDEX": "https://me:x@mine/simple"
    }


@pytest.mark.parametrize(
    "option", ["--index=https://me:token@x/simple", "--index=file:///x", "--find-links=https://x"]
)
def test_a_lock_names_indexes_without_credentials_and_nothing_else(
    option: str, tmp_path: Path
) -> None:
    with pytest.raises(ConfigInvalid):
        host_builds(tmp_path, f"dask==1.0 {option}", {}, [])


def test_uv_resolves_in_the_order_that_is_told(tmp_path: Path) -> None:
    """The first index that has a name decides, also if another has a higher version."""
    publish(tmp_path / "a", "one", "1.0")
    publish(tmp_path / "b", "one", "2.0")
    with serving(tmp_path / "a") as a, serving(tmp_path / "b") as b:
        variables = client(b, tmp_path / "cache") | {"UV_INDEX": a}
        found = Resolver("x86_64", variables)(["one"])
    assert found.indexes == {"one": a} == {"one": urls(read_indexes(variables))[0]}
