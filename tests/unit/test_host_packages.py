"""The host program's own packages, from an index or a folder to the workspace's bucket."""

from __future__ import annotations

import hashlib
import shutil
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from terradask import Workspace
from terradask._aws.s3 import ObjectStore
from terradask._aws.session import Aws
from terradask._clusters.start import bootable_baseline
from terradask._doctor.doctor import check_host_packages
from terradask._software.host_packages import BootLock, download, objects_beside
from terradask._workspace import applier
from terradask._workspace.applier import Applier, keeping_host_objects
from terradask._workspace.context import SettingsSource, WorkspaceContext
from terradask._workspace.host_packages import HostPackages, HostProgram
from terradask.errors import AccessDenied, BaselineError, NoBaseline

from ..moto_account import moto_account
from ..package_index import publish, serving
from .baselines import baseline

BUCKET = "terradask-default-123456789012-us-east-1"
KEY = "host/0a/terradask_host-0.1.0-py3-none-any.whl"
BOOT_LOCK = Path(__file__).parents[2] / "host/terradask_host/boot.lock"

SIX = "six-1.17.0-py2.py3-none-any.whl"
UV_ARM = "uv-1.0-py3-none-manylinux_2_17_aarch64.manylinux2014_aarch64.whl"
UV_X86 = "uv-1.0-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl"
UV_MUSL = "uv-1.0-py3-none-musllinux_1_1_x86_64.whl"
ARCHIVES = (SIX, UV_ARM, UV_X86, UV_MUSL)


def lock_of(**archives: list[bytes]) -> BootLock:
    """A list like boot.lock: ``name==version`` with the checksums of these contents."""
    lines = ["# What a person reads."]
    for package, contents in archives.items():
        name, _, version = package.partition("_")
        hashes = [f"    --hash=sha256:{hashlib.sha256(one).hexdigest()}" for one in contents]
        lines.append(" \\\n".join([f"{name}=={version.replace('_', '.')}", *hashes]))
    return BootLock("\n".join(lines).encode())


LOCK = lock_of(six_1_17_0=[SIX.encode()], uv_1_0=[name.encode() for name in ARCHIVES[1:]])


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Archives, among them such as no host may install."""
    made = tmp_path / "archives"
    made.mkdir()
    for name in ARCHIVES:
        (made / name).write_text(name)
    (made / "six-1.16.0-py2.py3-none-any.whl").write_text(SIX)
    (made / "six-1.17.0-py3-none-any.whl").write_text("other code")
    (made / "six.whl").write_text(SIX)
    return made


@pytest.fixture
def aws() -> Iterator[Aws]:
    with moto_account():
        found = Aws("us-east-1")
        found.client("s3").create_bucket(Bucket=BUCKET)
        yield found


def packages_of(aws: Aws, tmp_path: Path, **network: Any) -> HostPackages:
    settings = tmp_path / "terradask.toml"
    settings.touch()
    source = SettingsSource(settings, {"workspace": {"region": "us-east-1"}, "network": network})
    return HostPackages(WorkspaceContext.load(source, aws=aws))


def program_of(aws: Aws, lock: BootLock = LOCK) -> HostProgram:
    return HostProgram(objects_beside(aws, BUCKET, KEY), lock, ("arm64", "x86_64"))


def test_the_list_of_the_host_program_has_checksums_of_each_package() -> None:
    lock = BootLock(BOOT_LOCK.read_bytes())
    assert {package.partition("==")[0] for package in lock.hashes} >= {"botocore", "uv"}
    assert all(lock.hashes.values())
    assert lock.missing_archives([], "arm64") == list(lock.hashes)


def test_what_the_bucket_lacks_is_put_there_from_a_folder(
    aws: Aws, tmp_path: Path, folder: Path
) -> None:
    packages, program = packages_of(aws, tmp_path, host_packages="archives"), program_of(aws)
    program.objects.write("terradask_host-0.1.0-py3-none-any.whl", b"")
    archives = packages.gather(program)
    # uv's, with which hosts begin, are the last ones of their architectures.
    assert [path.name for path in archives] == [SIX, UV_ARM, UV_X86]
    assert {one: len(missing) for one, missing in program.lacking().items()} == {
        "arm64": 2,
        "x86_64": 2,
    }
    packages.put(program, archives)
    assert program.lacking() == {}
    assert packages.gather(program) == ()
    answer = aws.client("s3").get_object(Bucket=BUCKET, Key=f"host/0a/{UV_ARM}")
    assert answer["Body"].read() == UV_ARM.encode()
    program.objects.delete(UV_ARM)
    assert [path.name for path in packages.gather(program)] == [UV_ARM]


def test_a_folder_without_an_archive_of_the_right_content_is_refused(
    aws: Aws, tmp_path: Path, folder: Path
) -> None:
    (folder / UV_ARM).write_text("other code")
    with pytest.raises(BaselineError, match=f"{folder} lacks .* for arm64") as refused:
        packages_of(aws, tmp_path, host_packages=str(folder)).gather(program_of(aws))
    assert refused.value.given == "uv==1.0"


def test_pip_downloads_what_is_not_there_and_says_what_it_could_not(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_RETRIES", "0")
    digest = publish(tmp_path / "index", "boot-probe", "1.0")
    lock = BootLock(f"boot-probe==1.0 \\\n    --hash=sha256:{digest}\n".encode())
    packages, program = packages_of(aws, tmp_path), program_of(aws, lock)
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        (archive,) = packages.gather(program)
    assert hashlib.sha256(archive.read_bytes()).hexdigest() == digest
    # Those in the user's cache need no index.
    assert packages.gather(program) == (archive,)
    shutil.rmtree(archive.parent)
    with pytest.raises(BaselineError, match="pip could not download") as refused:
        packages.gather(program)
    assert "boot-probe==1.0" in str(refused.value.given)
    assert "network.host_packages" in (refused.value.advice or "")


@pytest.mark.parametrize(
    ("tag", "fits"),
    [
        ("cp310-abi3-manylinux_2_17_aarch64.manylinux2014_aarch64", True),
        ("cp310-abi3-manylinux_2_28_aarch64", True),
        ("cp310-abi3-manylinux_2_35_aarch64", False),
        ("cp312-cp312-manylinux_2_17_aarch64", False),
        ("cp310-abi3-manylinux_2_28_x86_64", False),
    ],
)
def test_archives_are_those_that_run_on_hosts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tag: str, fits: bool
) -> None:
    digest = publish(tmp_path / "index", "boot-probe", "1.0", tag=tag)
    lock = BootLock(f"boot-probe==1.0 \\\n    --hash=sha256:{digest}\n".encode())
    with serving(tmp_path / "index") as url:
        monkeypatch.setenv("PIP_INDEX_URL", url)
        if not fits:
            with pytest.raises(BaselineError, match="pip could not download"):
                download(lock, tmp_path / "cache", "arm64")
            return
        download(lock, tmp_path / "cache", "arm64")
    assert list(lock.select(tmp_path / "cache", "arm64")) == ["boot-probe==1.0"]


def test_hosts_of_an_embedded_aws_look_for_none_unless_a_folder_is_named(
    aws: Aws, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert packages_of(aws, tmp_path).are_needed
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:4566")
    assert not packages_of(aws, tmp_path).are_needed
    assert packages_of(aws, tmp_path, host_packages="archives").are_needed


def test_a_start_is_refused_where_hosts_would_not_find_their_own_packages(
    aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = baseline(host={"wheel_key": KEY, "wheel_sha256": "0a"})
    record: Any = SimpleNamespace(
        aws=aws, bucket=BUCKET, descriptor=SimpleNamespace(architecture="x86_64")
    )
    for key in ("workspace.json", f"host/0a/{UV_ARM}"):
        aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=deployed.model_dump_json())
    with pytest.raises(BaselineError, match="x86_64") as refused:
        bootable_baseline(record)
    assert "terradask doctor --fix" in (refused.value.advice or "")
    assert refused.value.given == f"no package beside s3://{BUCKET}/{KEY}"
    aws.client("s3").put_object(Bucket=BUCKET, Key=f"host/0a/{UV_X86}", Body=b"")
    assert bootable_baseline(record) == deployed
    # A caller who may not list finds nothing wrong.
    monkeypatch.setattr(ObjectStore, "names", denied)
    assert bootable_baseline(record) == deployed


def denied(*_: object) -> list[str]:
    raise AccessDenied("s3:ListBucket", "no")


class Recorded:
    """The parts of an apply of the network, which write down what they do."""

    def __init__(self) -> None:
        self.events: list[str] = []

    def has_no_index(self, *_: object) -> tuple[Path, ...]:
        raise BaselineError("no index", given="uv==1.0")

    def has_no_right(self, *_: object) -> tuple[Path, ...]:
        raise AccessDenied("s3:PutObject", "not authorized")

    def gather(self, *_: object) -> tuple[Path, ...]:
        self.events.append("gather")
        return ()

    def has_no_network(self) -> None:
        raise NoBaseline("no network")

    @contextmanager
    def locked(self, name: str) -> Iterator[Any]:
        yield self.stack(name)

    def stack(self, _name: str) -> Any:
        return SimpleNamespace(
            init=lambda: None, apply=lambda plan: self.events.append("terraform")
        )

    def applier(self, gather: Any) -> Applier:
        packages = SimpleNamespace(
            are_needed=True,
            planned=lambda stack: None,
            gather=gather,
            put=lambda *_: self.events.append("put"),
        )
        recovery = SimpleNamespace(remove_unfinished_groups=lambda creates: None)
        context: Any = SimpleNamespace(
            aws=None,
            network=SimpleNamespace(forget=lambda: None, baseline=self.has_no_network),
            message=self.events.append,
            warn=self.events.append,
        )
        stacks: Any = SimpleNamespace(
            locked=self.locked,
            network_recovery=lambda stack: recovery,
            stack=self.stack,
            states=SimpleNamespace(
                applied=SimpleNamespace(write=lambda *_: None),
                history=SimpleNamespace(record=lambda *_: None),
            ),
        )
        gate: Any = SimpleNamespace(refuse_forbidden=lambda plan: None)
        return Applier(context, stacks, SimpleNamespace(), packages, gate)  # type: ignore[arg-type]


def plan_that_creates(*addresses: str) -> Any:
    return SimpleNamespace(
        stack="network",
        destroy=False,
        creates=addresses,
        removes=(),
        check=lambda: None,
        folder=None,
    )


def test_packages_are_there_before_templates_change_and_got_before_anything_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(applier, "ensure_service_roles", lambda aws: None)
    recorded = Recorded()
    recorded.applier(recorded.gather).apply(plan_that_creates("aws_launch_template.x"))
    assert recorded.events == ["gather", "put", "terraform"]
    recorded.events.clear()
    recorded.applier(recorded.gather).apply(plan_that_creates("aws_s3_bucket.workspace"))
    assert recorded.events == ["gather", "terraform", "put"]
    recorded.events.clear()
    # After an interruption, or an apply by another program, the plan changes nothing.
    recorded.applier(recorded.gather).note(plan_that_creates())
    assert recorded.events == ["gather", "put"]
    recorded.events.clear()
    # One who may only make clusters goes on.
    recorded.applier(recorded.has_no_right).note(plan_that_creates())
    assert recorded.events == ["can't upload missing packages for hosts: AWS refuses s3:PutObject"]
    recorded.events.clear()
    with pytest.raises(BaselineError, match="no index"):
        recorded.applier(recorded.has_no_index).apply(plan_that_creates())
    assert recorded.events == []


@pytest.mark.parametrize("fails", [False, True])
def test_deployed_clusters_keep_what_their_hosts_boot_with(
    aws: Aws, tmp_path: Path, folder: Path, fails: bool
) -> None:
    context = packages_of(aws, tmp_path).context
    s3 = aws.client("s3")
    keys = [KEY, "host/scripts/1", "host/scripts/2"]
    host = {"wheel_key": KEY, "wheel_sha256": "0a", "script_keys": keys[1:]}
    deployed = baseline(host=host).model_dump_json()
    for key, content in {"workspace.json": deployed, **{key: key for key in keys}}.items():
        s3.put_object(Bucket=BUCKET, Key=key, Body=content.encode())
    planned = {"kept": {"key": keys[1]}, "new": {"key": "host/scripts/3"}}
    terraform = SimpleNamespace(
        configuration=lambda: {"resource": {"aws_s3_object": planned}},
    )
    stack: Any = SimpleNamespace(terraform=terraform)
    with suppress(ZeroDivisionError), keeping_host_objects(context, stack):
        for key in keys:
            s3.delete_object(Bucket=BUCKET, Key=key)
        if fails:
            raise ZeroDivisionError
    left = [each["Key"] for each in s3.list_objects_v2(Bucket=BUCKET)["Contents"]]
    assert left == [KEY, keys[2], "workspace.json"]
    assert s3.get_object(Bucket=BUCKET, Key=keys[2])["Body"].read().decode() == keys[2]


def test_doctor_finds_what_another_program_than_terradask_has_left_out_and_puts_it_there(
    aws: Aws, tmp_path: Path, folder: Path
) -> None:
    workspace = Workspace(packages_of(aws, tmp_path, host_packages=str(folder)).context)
    assert check_host_packages(workspace, fix=True).found.endswith("isn't deployed")
    wheel = tmp_path / "wheel"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("terradask_host/boot.lock", LOCK.content)
    deployed = baseline(host={"wheel_key": KEY, "wheel_sha256": "0a"}).model_dump_json()
    for key, content in {"workspace.json": deployed.encode(), KEY: wheel.read_bytes()}.items():
        aws.client("s3").put_object(Bucket=BUCKET, Key=key, Body=content)
    finding = check_host_packages(workspace, fix=False)
    assert not finding.ok
    assert finding.found == "arm64: no six==1.17.0, uv==1.0; x86_64: no six==1.17.0, uv==1.0"
    assert "terradask doctor --fix" in (finding.fix or "")
    assert check_host_packages(workspace, fix=True).found == f"3 uploaded to s3://{BUCKET}"
    assert check_host_packages(workspace, fix=False).ok
    assert workspace.put_host_packages() == ()
