"""Named environments: made from settings, kept in the bucket, used by clusters."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterator
from pathlib import Path

import boto3
import pytest

from terradask._aws.session import Aws
from terradask._software.client_versions import SAME
from terradask._software.conda.file import CondaChannel
from terradask._software.conda.solver import CondaPackage
from terradask._software.hosts import python_version
from terradask._software.local_wheels import LocalWheel
from terradask._software.lock import SoftwareLock, with_conda
from terradask._software.named_environments import (
    NamedEnvironment,
    NamedEnvironments,
    environment_not_found,
)
from terradask._software.package_sync import lock_for_hosts
from terradask._software.sync import PackageSync
from terradask._workspace.environments import Environments
from terradask.errors import (
    DocumentFormat,
    InvalidInput,
    SettingsError,
    SoftwareUnusable,
)
from terradask_host.documents import EnvironmentArchive
from terradask_modules.caller_policies import CALLERS, CallerScope, caller_statements
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_stacks.loading import load_settings

from ..moto_account import moto_account

BUCKET = "terradask-default-123456789012-us-east-1"
HERE = {name: importlib.metadata.version(name) for name in SAME}


@pytest.fixture
def stored() -> Iterator[NamedEnvironments]:
    with moto_account():
        boto3.client("s3", region_name="us-east-1").create_bucket(Bucket=BUCKET)
        yield NamedEnvironments(Aws("us-east-1"), BUCKET)


def lock_of(**versions: str) -> SoftwareLock:
    packages = {**HERE, **versions}
    return SoftwareLock(
        python_version(),
        packages,
        dict.fromkeys(packages, ("0" * 64,)),
        wheels=[LocalWheel("acme", "1.0", "acme-1.0-py3-none-any.whl", b"a wheel")],
        indexes={"dask": ("--index=https://team/simple",)},
    )


def put(stored: NamedEnvironments, name: str = "team", **versions: str) -> NamedEnvironment:
    lock = lock_of(**versions)
    found = NamedEnvironment.of_lock(name, lock, "x86_64", at="2026-11-23T00:00:00Z", by="me")
    stored.write(found, lock)
    return found


def test_hosts_get_what_was_created(stored: NamedEnvironments) -> None:
    found = put(stored, pandas="3.1.1")
    assert stored.read("team") == found
    assert stored.names() == ["team"]
    lock = lock_for_hosts(
        "team", PackageSync(False), architecture="x86_64", lock_file=None, named=stored
    )
    assert lock.to_requirements() == lock_of(pandas="3.1.1").to_requirements()
    assert lock.versions == {**HERE, "pandas": "3.1.1", "acme": "1.0"}


def test_a_plan_says_what_it_is_or_that_it_is_not_there(stored: NamedEnvironments) -> None:
    assert stored.describe("team").startswith("team, which can't be read: There is no environment")
    found = put(stored)
    said = stored.describe("team")
    assert said.startswith(
        f"team, {len(HERE) + 1} packages for Python {python_version()} on x86_64"
    )
    assert f"SHA-256 {found.sha256}, created 2026-11-23T00:00:00Z by me" in said


FORGE = "https://team.example/forge"


def of_conda(digest: str = "1" * 64) -> SoftwareLock:
    named = {"python": f"{python_version()}.7", "dask-core": HERE["dask"], "acme-geo": "1.0"}
    named |= {name: version for name, version in HERE.items() if name != "dask"}
    packages = [
        CondaPackage(name, version, f"{FORGE}/noarch/{name}-{version}-0.conda", digest, True)
        for name, version in named.items()
    ]
    wheel = LocalWheel("py-rattler", "0.28.0", "py_rattler-0.28.0-cp310-abi3-any.whl", b"wheel")
    lock = SoftwareLock(python_version(), {"acme": "1.0"}, {"acme": ("0" * 64,)})
    return with_conda(lock, packages, wheel, [CondaChannel(FORGE, "me:s3cr3t")])


def test_condas_packages_are_kept_with_what_installs_them(
    stored: NamedEnvironments, tmp_path: Path
) -> None:
    lock = of_conda()
    made = NamedEnvironment.of_lock("team", lock, "x86_64", at="2026-11-23T00:00:00Z", by="me")
    assert stored.write(made, lock)
    assert stored.read("team") == made
    assert made.versions["acme-geo"] == "1.0"
    assert made.versions["dask"] == HERE["dask"]
    assert "s3cr3t" not in json.dumps(made.as_dict())
    # Credentials are those of the one who uses it.
    (tmp_path / ".netrc").write_text("machine team.example login you password own\n")
    found = stored.lock("team", "x86_64", {"HOME": str(tmp_path)})
    assert found.to_requirements() == lock.to_requirements()
    assert found.contents == lock.contents
    assert found.credentials == {FORGE: "you:own"}
    other = of_conda("2" * 64)
    assert stored.write(NamedEnvironment.of_lock("team", other, "x86_64", at="", by=""), other)


def test_the_same_packages_are_the_same_environment(stored: NamedEnvironments) -> None:
    lock = lock_of()
    first = put(stored)
    later = NamedEnvironment.of_lock("team", lock, "x86_64", at="2027-01-01T00:00:00Z", by="you")
    assert later.sha256 == first.sha256
    assert not stored.write(later, lock)
    other = NamedEnvironment.of_lock("team", lock_of(pandas="1.0"), "x86_64", at="", by="")
    assert stored.write(other, lock)


@pytest.mark.parametrize(
    ("versions", "architecture", "said"),
    [
        ({"dask": "2020.1.0"}, "x86_64", r"it has dask 2020\.1\.0; the client has dask"),
        ({}, "arm64", "it is for x86_64; the cluster's hosts are arm64"),
    ],
)
def test_what_this_client_or_cluster_can_not_use_is_refused(
    stored: NamedEnvironments, versions: dict[str, str], architecture: str, said: str
) -> None:
    put(stored, **versions)
    with pytest.raises(SoftwareUnusable, match=said):
        stored.lock("team", architecture, {})


def test_another_python_is_refused(stored: NamedEnvironments) -> None:
    lock = SoftwareLock("3.14" if python_version() != "3.14" else "3.13", dict(HERE))
    stored.write(NamedEnvironment.of_lock("team", lock, "x86_64", at="", by=""), lock)
    with pytest.raises(SoftwareUnusable, match="it has Python"):
        stored.lock("team", "x86_64", {})


def test_a_wheel_that_was_replaced_is_refused(stored: NamedEnvironments) -> None:
    put(stored)
    client = boto3.client("s3", region_name="us-east-1")
    listed = client.list_objects_v2(Bucket=BUCKET, Prefix="software/wheels/")["Contents"]
    client.put_object(Bucket=BUCKET, Key=listed[0]["Key"], Body=b"planted")
    with pytest.raises(SoftwareUnusable, match="was replaced"):
        stored.lock("team", "x86_64", {})


def test_a_name_that_is_not_there_lists_those_that_are(stored: NamedEnvironments) -> None:
    put(stored)
    with pytest.raises(SoftwareUnusable, match="team") as caught:
        stored.lock("pandas", "x86_64", {})
    assert "software=['pandas']" in str(caught.value)


@pytest.mark.parametrize("content", [b"[]", b"{}", b"not json", b'{"python": 1}'])
def test_a_document_that_can_not_be_read_says_what_to_do(
    stored: NamedEnvironments, content: bytes
) -> None:
    boto3.client("s3", region_name="us-east-1").put_object(
        Bucket=BUCKET, Key="software/team.json", Body=content
    )
    with pytest.raises(DocumentFormat, match="terradask env create team"):
        stored.read("team")


def test_an_archive_counts_for_what_it_was_built_of(stored: NamedEnvironments) -> None:
    put(stored)
    archive = EnvironmentArchive("environments/env-team/a.tar", 7, "0" * 64)
    assert stored.find_archive("team", "id") is None
    stored.write_archive("team", "id", archive)
    assert stored.find_archive("team", "id") == archive
    assert stored.find_archive("team", "another id") is None
    assert stored.names() == ["team"]
    stored.delete("team")
    assert stored.names() == []
    assert stored.find_archive("team", "id") is None
    with pytest.raises(SoftwareUnusable, match="There is no environment"):
        stored.delete("team")


@pytest.mark.locked
def test_settings_say_what_is_in_one(
    stored: NamedEnvironments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # With all that hosts need: an index would be asked for the rest.
    packages = HERE | {"bokeh": "3.9.2", "pip": "26.3"}
    tables = "".join(
        f'[[packages]]\nname = "{name}"\nversion = "{version}"\n'
        f'wheels = [{{ url = "https://i/{name}-{version}-py3-none-any.whl", '
        f'hashes = {{ sha256 = "{"0" * 64}" }} }}]\n'
        for name, version in packages.items()
    )
    (tmp_path / "pylock.toml").write_text(f'lock-version = "1.0"\ncreated-by = "us"\n{tables}')
    path = tmp_path / "terradask.toml"
    path.write_text(
        '[environments.team]\nsoftware = "pylock.toml"\n'
        '[environments.arm]\nsoftware = "pylock.toml"\narchitecture = "arm64"\n'
    )
    environments = Environments(load_settings(path, environ={}), Aws("us-east-1"), BUCKET)
    assert environments.declared() == ["arm", "team"]
    found, changed = environments.create("team")
    assert (found.packages, found.architecture, changed) == (packages, "x86_64", True)
    assert not environments.create("team")[1]
    assert environments.create("arm")[0].architecture == "arm64"
    with pytest.raises(SoftwareUnusable, match="arm, default, team"):
        environments.create("absent")
    assert json.dumps(found.as_dict())


def test_a_declaration_that_has_changed_since_is_told(
    stored: NamedEnvironments, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = lock_of()
    monkeypatch.setattr(Environments, "_lock", lambda self, settings: lock)
    requirements, path = tmp_path / "team.txt", tmp_path / "terradask.toml"
    requirements.write_text("acme\n")

    def declared(text: str) -> Environments:
        path.write_text(text)
        return Environments(load_settings(path, environ={}), Aws("us-east-1"), BUCKET)

    environments = declared('[environments.team]\nsoftware = "team.txt"\n')
    environments.create("team")
    assert not environments.differs(stored.read("team"))
    requirements.write_text("acme>=1\n")
    assert environments.differs(stored.read("team"))
    # The same packages: nobody's environment changes, and it is as declared.
    assert not environments.create("team")[1]
    assert not environments.differs(stored.read("team"))
    assert declared('[environments.team]\nsoftware = ["acme"]\n').differs(stored.read("team"))
    # Declared elsewhere, or created by an older terradask.
    assert not declared("").differs(stored.read("team"))
    put(stored, "older")
    assert not declared('[environments.older]\nsoftware = ["acme"]\n').differs(stored.read("older"))


def test_the_name_of_a_package_that_is_installed_is_refused(
    stored: NamedEnvironments, tmp_path: Path
) -> None:
    path = tmp_path / "terradask.toml"
    path.write_text("[environments.dask]\nsoftware = []\n")
    environments = Environments(load_settings(path, environ={}), Aws("us-east-1"), BUCKET)
    with pytest.raises(InvalidInput, match="the name of a locally installed package"):
        environments.create("dask")
    assert not stored.names()


def test_a_name_that_can_not_be_used_is_an_environments(tmp_path: Path) -> None:
    path = tmp_path / "terradask.toml"
    path.write_text("[environments.network]\n[environments.Team]\n")
    with pytest.raises(SettingsError, match="the environment's name can't be used") as caught:
        load_settings(path, environ={})
    assert "network" not in str(caught.value)


def test_the_default_one_is_not_to_be_declared() -> None:
    assert "declare" not in str(environment_not_found("default", []))
    assert "declare [environments.team]" in str(environment_not_found("team", []))


def test_the_default_one_needs_no_table(tmp_path: Path) -> None:
    path = tmp_path / "terradask.toml"
    path.write_text("")
    named = load_settings(path, environ={}).settings.environment_named
    default = named("default")
    assert default is not None
    assert default.software == ["numpy", "pandas", "pyarrow"]
    path.write_text('[environments.default]\nsoftware = ["polars"]\n')
    changed = load_settings(path, environ={}).settings.environment_named("default")
    assert changed is not None
    assert changed.software == ["polars"]


def test_setup_alone_may_write_them_and_all_may_read_them() -> None:
    scope = CallerScope(
        hosts=PolicyScope(
            where=Where(
                partition="aws", region="us-east-1", account="123456789012", workspace="default"
            )
        )
    )
    for caller in CALLERS:
        writes, reads = [], []
        for statement in caller_statements(scope, caller):
            resources = statement["Resource"]
            actions = statement["Action"]
            if not any("/software/" in each for each in _list(resources)):
                continue
            writes += [a for a in _list(actions) if a.startswith("s3:Put")]
            reads += [a for a in _list(actions) if a == "s3:GetObject"]
        assert bool(writes) is (caller == "setup"), caller
        assert reads, caller


def _list(value: str | list[str]) -> list[str]:
    return [value] if isinstance(value, str) else value


def test_with_a_lock_file_an_environment_is_not_called_a_file(tmp_path: Path) -> None:
    path = tmp_path / "terradask.toml"
    path.write_text('[cluster]\nsoftware = "team"\nsoftware_lock = "uv.lock"\n')
    with pytest.raises(SettingsError, match="names a file or an environment, and"):
        load_settings(path, environ={})
