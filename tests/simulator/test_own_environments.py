"""Hosts of the embedded AWS with environments of their own: a cluster's is built once, from an
index on loopback that counts, with the roles' own rights.
"""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest
from distributed import Client

from terradask import Cluster
from terradask_host.agent import object_stream
from terradask_host.agent.aws import Aws
from terradask_host.agent.objects import ClusterObjects
from terradask_simulator import Simulator

from ..command import in_this_process
from ..package_index import serving
from ..quick_provider import QuickProvider
from ..waiting import HANG_SECONDS
from .acting import Account, code_of, host
from .own_index import DASHBOARD, list_installed, versions_for_hosts

#: A package in a pylock.toml, up to its wheel's hash.
_LOCKED = """[[packages]]
name = "{name}"
version = "{version}"
wheels = [{{ url = "https://index.example/{file}", """


@dataclass(frozen=True)
class Index:
    """A package index that counts, and the tables of its packages in a ``pylock.toml``."""

    url: str
    asked: list[str]
    locked: str


pytestmark = [pytest.mark.simulator, pytest.mark.life]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Index]:
    """What hosts need, packed from what is installed here."""
    root, asked = tmp_path_factory.mktemp("index"), list[str]()
    versions = versions_for_hosts()
    locked = [
        _LOCKED.format(name=name, version=versions[name], file=file)
        + f'hashes = {{ sha256 = "{digest}" }} }}]\n'
        for name, (file, digest) in list_installed(root, versions, DASHBOARD).items()
    ]
    with serving(root, asked) as url:
        yield Index(url, asked, "".join(locked))


#: Builds the one module beside it, and needs no other package.
_BACKEND = """
import zipfile
def build_wheel(folder, config_settings=None, metadata_directory=None):
    name = "acme-1.0-py3-none-any.whl"
    about = {"METADATA": "Metadata-Version: 2.1\\nName: acme\\nVersion: 1.0\\n", "RECORD": ""}
    about["WHEEL"] = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    with zipfile.ZipFile(f"{folder}/{name}", "w") as wheel:
        wheel.write("acme.py")
        for file, text in about.items():
            wheel.writestr(f"acme-1.0.dist-info/{file}", text)
    return name
"""


@pytest.fixture
def edited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The module of a package that is installed here as editable."""
    source, about = tmp_path / "source", tmp_path / "site" / "acme-1.0.dist-info"
    source.mkdir()
    about.mkdir(parents=True)
    build = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n'
    (source / "pyproject.toml").write_text(f'{build}[project]\nname = "acme"\nversion = "1.0"\n')
    (source / "backend.py").write_text(_BACKEND)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    origin = {"url": source.as_uri(), "dir_info": {"editable": True}}
    (about / "direct_url.json").write_text(json.dumps(origin))
    monkeypatch.syspath_prepend(str(about.parent))
    (source / "acme.py").write_text("STATE = 'first'\n")
    return source / "acme.py"


def test_a_clusters_hosts_ask_the_index_once(
    sim_environ: dict[str, str],
    sim: Simulator,
    index: Index,
    edited: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    quick_provider: QuickProvider,
) -> None:
    url, asked = index.url, index.asked
    lock = tmp_path / "pylock.toml"
    (tmp_path / "work").mkdir()
    (tmp_path / "work/steps.py").write_text("NAME = 'steps'\n")
    monkeypatch.chdir(tmp_path / "work")
    lock.write_text(
        f'lock-version = "1.0"\ncreated-by = "the team"\n{index.locked}[[packages]]\n'
        'name = "acme"\ndirectory = { path = "source", editable = true }\n'
    )
    with (
        sim.build_environments(index_url=url),
        Cluster(
            "built",
            n_workers=2,
            software=lock,
            local_modules=True,
            wait_for_workers=True,
            scheduler_options={"dashboard": False},
        ) as cluster,
        Client(cluster) as client,
    ):
        places = client.run(lambda: __import__("distributed").__file__)
        assert len(places) == 2 == len(set(places.values()))
        assert all("/var/lib/terradask/environments/" in place for place in places.values())
        times = Counter(asked)
        assert times
        assert set(times.values()) == {1}, times
        assert set(client.run(lambda: __import__("steps").NAME).values()) == {"steps"}
        _no_worker_writes_it(sim)
        _an_incomplete_upload_leaves_no_parts(sim)

    # An environment for all, that a cluster without workers builds.
    (tmp_path / "work/terradask.toml").write_text(
        '[environments.team]\nsoftware = "../pylock.toml"\n'
    )
    quick_provider.lock(tmp_path / "work")
    with sim.build_environments(index_url=url):
        for command in ("create", "build"):
            done = in_this_process("env", command, "team")
            assert done.returncode == 0, done.stderr
    assert asked

    # Another cluster, whose hosts find what that one has built.
    asked.clear()
    with (
        sim.build_environments(index_url=url),
        Cluster(
            "again",
            n_workers=1,
            software="team",
            wait_for_workers=True,
            scheduler_options={"dashboard": False},
        ) as cluster,
        Client(cluster) as client,
    ):
        (place,) = client.run(lambda: __import__("distributed").__file__).values()
        assert "/var/lib/terradask/environments/" in place
        assert not asked
        assert _states(client) == {"first"}
        edited.write_text("STATE = 'edited'\n")
        assert cluster.sync_software() == ["acme"]
        client.wait_for_workers(1, timeout=HANG_SECONDS)
        assert _states(client) == {"edited"}
        cluster.scale(2)
        cluster.wait_for_workers(2, timeout=HANG_SECONDS)
        assert _states(client) == {"edited"}
        assert cluster.sync_software() == []
        # It hadn't imported the package before.
        assert client.run_on_scheduler(lambda: __import__("acme").STATE) == "edited"


def _states(client: Client) -> set[str]:
    """Return what each worker has of the package."""
    return set(client.run(lambda: __import__("acme").STATE).values())


def _bucket(owner: Account) -> str:
    names = (one["Name"] for one in owner.client("s3").list_buckets()["Buckets"])
    (bucket,) = (name for name in names if name.startswith("terradask-default-"))
    return str(bucket)


def _an_incomplete_upload_leaves_no_parts(sim: Simulator) -> None:
    with contextlib.ExitStack() as clients:
        owner = Account(sim, {}, clients)
        bucket = _bucket(owner)
        aws = cast(Aws, host(owner, sim, clients, "terradask-default-scheduler"))
        objects = ClusterObjects(aws, bucket, "built")
        key = f"{objects.environments}x.tar"
        with objects.upload(key, on_write=lambda: None) as upload:
            upload.write(bytes(object_stream.PART_BYTES))
            (begun,) = owner.client("s3").list_multipart_uploads(Bucket=bucket)["Uploads"]
            assert begun["Key"] == key
        assert "Uploads" not in owner.client("s3").list_multipart_uploads(Bucket=bucket)


def _no_worker_writes_it(sim: Simulator) -> None:
    with contextlib.ExitStack() as clients:
        owner = Account(sim, {}, clients)
        bucket = _bucket(owner)
        put = host(owner, sim, clients, "terradask-default-worker").client("s3").put_object
        for key in ("clusters/built/environment.json", "environments/built/x.tar"):
            asked = {"Bucket": bucket, "Key": key, "Body": b"planted"}
            assert code_of(put, **asked) == "AccessDenied"
