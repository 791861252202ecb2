"""``python -m terradask_host.image``: prepares this instance to become an image of the workspace's
own, reports that, and powers it off. Run by root, by systemd, when cloud-init has ended.

The image keeps the host program, Python, and the environment of the instance's recipe.
Configuration, keys, logs, and the identities of machine and cloud-init are removed.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from terradask_host.agent.aws import Aws, is_aws_error
from terradask_host.agent.container.layers import remove
from terradask_host.agent.environment import Environment, check_digest
from terradask_host.agent.event_queue import EventQueue
from terradask_host.config import PYTHON_VARIABLE, HostConfig, load_config, parse_document
from terradask_host.documents import FORMAT, now_text
from terradask_host.errors import EnvironmentFailed, HostError
from terradask_host.metadata import InstanceMetadata
from terradask_host.root_programs import HOST_UNIT, OWNER

#: The tag with the SHA-256 of the recipe, on an instance that becomes an image.
#: `terradask_modules.names` has the same.
RECIPE_TAG = "terradask:image:recipe"
#: Key prefix of recipes: the SHA-256 of one follows, or ``wheels/…`` of an environment.
RECIPES = "host/images/"
#: Where it reports, as a host of a cluster that no cluster can be.
REPORTS = "clusters/_images/hosts/"
PREPARED, FAILED = "prepared", "failed"

#: Patterns of removed files and folders, below the root.
#: AWS (documented, image-secrets): An image should have no SSH host keys, authorized keys and shell
#: histories. https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/building-shared-amis.html
_REMOVED = (
    "etc/terradask",
    f"etc/systemd/system/{HOST_UNIT}",
    "opt/terradask/archives",
    "opt/terradask/unpacked",
    "opt/terradask/cache",
    "opt/terradask/boot.sh",
    "etc/ssh/ssh_host_*",
    "root/.ssh/authorized_keys",
    "home/*/.ssh/authorized_keys",
    "root/.*_history",
    "home/*/.*_history",
    "root/.aws",
    # Of the agent of Systems Manager: which instance it is.
    "var/lib/amazon/ssm/*",
    "var/lib/dbus/machine-id",
    "var/lib/systemd/random-seed",
    "var/lib/systemd/credential.secret",
    "var/lib/terradask/uv-cache",
    "var/lib/terradask/environments/*.lock",
    "var/lib/terradask/environments/*.wheels",
    "var/cache/dnf/*",
    "var/tmp/*",
    "tmp/*",
)


def build_environment(config: HostConfig, recipe_sha256: str) -> None:
    """Build the environment of a recipe, as the user who runs Dask: packages may run code.

    Raises `ConfigInvalid`, `DocumentChanged`, `EnvironmentFailed`, and botocore's errors.
    """
    aws = Aws(config.region)

    def read(key: str) -> bytes:
        answer = aws.client("s3").get_object(Bucket=config.bucket, Key=f"{RECIPES}{key}")
        content: bytes = answer["Body"].read()
        return content

    key = f"{recipe_sha256}.json"
    content = read(key)
    check_digest(
        content,
        f"{RECIPES}{key}",
        recipe_sha256,
        problem="The image's recipe in the bucket is not the one that its instance names.",
        then="run: terradask image build",
    )
    recipe = parse_document(content, f"{RECIPES}{key}")
    Environment(
        config.paths,
        str(recipe.get("python")),
        str(recipe.get("lock")),
        events=EventQueue(),
        log=_print,
        deadline_seconds=config.timing.environment_deadline_seconds,
        read=read,
    ).build()


def _build_as_user(config: HostConfig, recipe_sha256: str) -> None:
    """Build the environment in a process of the user's."""
    state = config.paths.state
    state.mkdir(mode=0o700, parents=True, exist_ok=True)
    is_root = os.geteuid() == 0
    if is_root:
        shutil.chown(state, OWNER, OWNER)
    user: dict[str, Any] = {"user": OWNER, "group": OWNER, "extra_groups": []} if is_root else {}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "terradask_host.image", recipe_sha256],
        env={**os.environ, **(_unit_environ() if is_root else {})},
        check=False,
        stderr=subprocess.PIPE,
        text=True,
        **user,
    )
    if done.returncode:
        raise EnvironmentFailed(done.stderr.strip() or f"exit code {done.returncode}")


def _unit_environ() -> dict[str, str]:
    """Return the variables of the host program's unit: an image may name its indexes there."""
    command = ["systemctl", "show", "--property=Environment", "--value", HOST_UNIT]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    pairs = (word.partition("=") for word in shlex.split(done.stdout))
    return {name: value for name, equals, value in pairs if equals}


def clean(root: Path) -> None:
    """Remove what is of this instance alone. Raises `OSError` if something stays."""
    for pattern in _REMOVED:
        for path in root.glob(pattern):
            remove(path)
    # systemd makes another identity where this file is empty, see machine-id(5).
    (root / "etc/machine-id").write_text("")
    if shutil.which("cloud-init"):
        subprocess.run(["cloud-init", "clean"], check=True, stdout=subprocess.DEVNULL)
    for path in (root / "var/log").rglob("*"):
        # Open in programs that go on until the end: emptied, not removed.
        if path.is_file() and not path.is_symlink():
            os.truncate(path, 0)


def _print(line: str) -> None:
    print(f"terradask-image: {line}", flush=True)


def prepare(config: HostConfig, metadata: InstanceMetadata) -> None:
    """Prepare the image, and report whether that succeeded."""
    instance_id = metadata.get("meta-data/instance-id")
    report: dict[str, Any] = {"format": FORMAT, "instance_id": instance_id, "state": PREPARED}
    # Loaded and signed in before their files go.
    s3 = Aws(config.region).client("s3")
    try:
        recipe = metadata.get(f"meta-data/tags/instance/{RECIPE_TAG}")
        # A simulated host has the environment of its simulator.
        if recipe and PYTHON_VARIABLE not in os.environ:
            _build_as_user(config, recipe)
        # A simulated host's computer isn't cleaned.
        if config.paths.root == Path("/"):
            clean(config.paths.root)
    except (HostError, OSError, subprocess.SubprocessError) as error:
        report |= {"state": FAILED, "reason": str(error)}
    except Exception as error:
        if not is_aws_error(error):
            raise
        report |= {"state": FAILED, "reason": str(error)}
    _print(f"{report['state']} {report.get('reason', '')}".strip())
    body = json.dumps({**report, "at": now_text()}).encode()
    s3.put_object(Bucket=config.bucket, Key=f"{REPORTS}{instance_id}.json", Body=body)


def main(arguments: list[str]) -> int:
    """Prepare the image and power off; with an argument, build the environment of that recipe."""
    config = load_config(os.environ)
    if arguments:
        try:
            build_environment(config, arguments[0])
        except HostError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
    try:
        prepare(config, InstanceMetadata(config.metadata_endpoint))
    finally:
        # In any case: an instance that stays would cost.
        subprocess.run(["systemctl", "poweroff"], check=False)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
