"""A program that stands in for OpenTofu: `python stand_in_tofu.py TERRAFORM MIRROR SHADOWS VERB …`.

It reads the lock file, the settings and the configuration as OpenTofu 1.11 does, and prints what
OpenTofu prints; Terraform does the work, in a folder of its own, with the provider's address in
OpenTofu's registry. So state, plan and lock have that address. What it knows of OpenTofu is from
https://github.com/opentofu/opentofu/tree/v1.11: internal/depsfile/locks.go (the lock file),
internal/tofumigrate (addresses in states), internal/command/views (events).
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

_OURS, _THEIRS = "registry.opentofu.org", "registry.terraform.io"
_PROVIDER = "hashicorp/aws"
_CONFIGURATION, _LOCK = "cdk.tf.json", ".terraform.lock.hcl"
_PLANNED = f"tfconfig/m-/{_CONFIGURATION}"


class Refused(Exception):
    """OpenTofu would end with this error."""


def main(terraform: str, mirror: Path, shadows: Path, arguments: list[str]) -> int:
    """Run one command, and return its exit code."""
    if arguments[0] == "version":
        done = subprocess.run([terraform, "version"], capture_output=True, text=True, check=True)
        print(done.stdout.replace("Terraform", "OpenTofu"), end="")
        return 0
    folder = Path.cwd()
    shadow = shadows / hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    try:
        if arguments[0] == "init":
            _check_lock(folder)
            _check_settings()
            # Both addresses: OpenTofu reads Terraform's in a state as its own. Terraform keeps what
            # the state and the configuration have.
            lock = (folder / _LOCK).read_text()
            shadow.mkdir(parents=True, exist_ok=True)
            (shadow / _LOCK).write_text(lock + lock.replace(_OURS, _THEIRS))
        original = _fill(shadow, folder)
    except Refused as refused:
        summary, detail = refused.args
        found = {"severity": "error", "summary": summary, "detail": detail}
        print(
            json.dumps({"@message": f"Error: {summary}", "type": "diagnostic", "diagnostic": found})
        )
        return 1
    settings = shadow.with_suffix(".rc")
    settings.write_text(f'provider_installation {{ filesystem_mirror {{ path = "{mirror}" }} }}\n')
    environ = {
        **os.environ,
        "TF_DATA_DIR": str(folder / ".terraform"),
        "TF_CLI_CONFIG_FILE": str(settings),
    }
    arguments = [each for each in arguments if each != "-lockfile=readonly"]
    plan = Path(arguments[-1])
    if arguments[0] in ("show", "apply") and plan.is_file():
        passed = shadow / "passed.tfplan"
        _copy_plan(plan, passed, (shadow / _CONFIGURATION).read_bytes())
        arguments[-1] = str(passed)
    code = _run([terraform, *arguments], shadow, environ)
    (out,) = [each[5:] for each in arguments if each.startswith("-out=")] or [None]
    if code == 0 and out is not None:
        made = shadow / "made.tfplan"
        shutil.move(out, made)
        _copy_plan(made, Path(out), original)
    return code


def _check_lock(folder: Path) -> None:
    """Refuse a lock file that OpenTofu wouldn't leave as it is."""
    locked = set(re.findall(r'^provider "(.+)"', (folder / _LOCK).read_text(), re.M))
    # It adds its own address to another registry's one, and drops that one, which is a change.
    known = locked | {each.replace(_THEIRS, _OURS) for each in locked}
    if known != {f"{_OURS}/{_PROVIDER}"}:
        raise Refused(
            "Provider dependency changes detected",
            "Changes to the required provider dependencies were detected, but the lock file is "
            "read-only.",
        )


def _check_settings() -> None:
    """Refuse settings without a copy of the provider at OpenTofu's address: no registry answers."""
    text = Path(os.environ["TF_CLI_CONFIG_FILE"]).read_text()
    path = re.search(r'path += "(.+)"', text)
    included = f'include = ["{_OURS}/*/*"]' in text
    if path is None or not included or not (Path(path[1]) / _OURS / _PROVIDER).is_dir():
        raise Refused(
            "Failed to query available provider packages",
            f"Could not retrieve the list of available versions for provider {_PROVIDER}: could "
            f"not connect to {_OURS}: no such host",
        )


def _fill(shadow: Path, folder: Path) -> bytes:
    """Write what Terraform reads; return the configuration that OpenTofu reads."""
    original = (folder / _CONFIGURATION).read_bytes()
    document = json.loads(original)
    provider = document["terraform"]["required_providers"]["aws"]
    if provider["source"] == _PROVIDER:
        provider["source"] = f"{_OURS}/{_PROVIDER}"
    (shadow / _CONFIGURATION).write_text(json.dumps(document))
    for name in ("imports.tf.json", "host"):
        (shadow / name).unlink(missing_ok=True)
        if (folder / name).exists():
            (shadow / name).symlink_to(folder / name)
    return original


def _copy_plan(source: Path, target: Path, configuration: bytes) -> None:
    """Copy a plan with another configuration."""
    with zipfile.ZipFile(source) as read, zipfile.ZipFile(target, "w") as write:
        for name in read.namelist():
            write.writestr(name, configuration if name == _PLANNED else read.read(name))


def _run(command: list[str], folder: Path, environ: dict[str, str]) -> int:
    """Run Terraform, and print its output as OpenTofu prints it."""
    with subprocess.Popen(
        command, cwd=folder, env=environ, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        signal.signal(signal.SIGINT, lambda number, frame: process.send_signal(number))
        for line in process.stdout:
            print(_translated(line), end="", flush=True)
    return process.returncode


def _translated(line: str) -> str:
    try:
        document: dict[str, Any] = json.loads(line)
    except ValueError:
        return line
    if document.get("type") == "version":
        version = document.pop("terraform")
        document |= {"@message": f"OpenTofu {version}", "@module": "tofu.ui", "tofu": version}
    elif "Installing provider version: " in str(document.get("@message")):
        text = document["@message"].replace("Installing provider version: ", "- Installing ")
        document["@message"] = text
    for name in ("applyable", "complete"):
        document.pop(name, None)
    return json.dumps(document) + "\n"


if __name__ == "__main__":
    _terraform, _mirror, _shadows, *_arguments = sys.argv[1:]
    sys.exit(main(_terraform, Path(_mirror), Path(_shadows), _arguments))
