"""Synthesise settings and locked answers to folders in which Terraform, or the ``cdktf`` command,
runs.

The same settings and answers always give the same bytes, so results are cached: a second synthesis
of the same starts no Node process and doesn't import the framework. Clusters that differ only in
their names are synthesised once. The framework runs in this process, or in another Python.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from terradask_modules.errors import InvalidInput
from terradask_modules.frameworks import versions_here
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.files import write_whole
from terradask_stacks.host_scripts import HostScripts
from terradask_stacks.host_wheel import FOLDER, HostWheel, build_host_wheel
from terradask_stacks.inputs import ClusterInputs, Inputs, inputs_of
from terradask_stacks.lock import LockFile
from terradask_stacks.own_packages import own_folders
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.version import terradask_version

#: Checksums of the provider for every platform, as in the project's root.
LOCK_HCL = Path(__file__).with_name("terraform.lock.hcl")
#: The same of OpenTofu's registry.
OPENTOFU_LOCK_HCL = Path(__file__).with_name("tofu.lock.hcl")

#: The name with which clusters are synthesised and cached; their own replaces it afterwards.
_STAND_IN = "stands-for-the-cluster"


class OtherPython(Protocol):
    """Another Python, which has the framework."""

    def get(self) -> Path:
        """Return it; called only if something isn't cached."""

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the framework there."""


def synthesize(
    settings: Settings,
    lock: LockFile,
    *,
    out_dir: Path,
    stacks: Sequence[str] | None = None,
    clusters: Mapping[str, ClusterSettings] | None = None,
    scripts: HostScripts = MappingProxyType({}),
    lock_hcl: Path | None = None,
    cache_dir: Path | None = None,
    other_python: OtherPython | None = None,
) -> dict[str, Path]:
    """Write stacks to ``<out_dir>/stacks/<name>``.

    Raises `InvalidInput` if a stack is unknown, an answer for it isn't locked yet, or it can't be
    made; `SetupError` if the framework is missing.

    Parameters
    ----------
    settings
        The workspace's settings.
    lock
        Locked answers for every stack that is wanted.
    out_dir
        The folder for everything, usually ``cdktf.out``.
    stacks
        Names of the stacks; by default the network and every cluster of ``clusters``.
    clusters
        Settings of each cluster that may be wanted, by name.
    scripts
        The network's scripts for hosts, as `read_host_scripts` reads them.
    lock_hcl
        The provider's lock file to put into each folder; by default the one that ships with
        terradask.
    cache_dir
        Folder of earlier results; by default none is used.
    other_python
        Another Python in which the framework runs; by default it runs in this process.

    Returns
    -------
    dict
        Stack name -> its folder.
    """
    clusters = clusters or {}
    wanted = list(stacks) if stacks is not None else [NETWORK_STACK, *clusters]
    wheel = build_host_wheel()
    jobs = [inputs_of(name, settings, lock, clusters, wheel, scripts=scripts) for name in wanted]
    texts = _texts(jobs, wheel, cache_dir, other_python)
    folders = {
        name: write_stack(name, texts[name], out_dir=out_dir, lock_hcl=lock_hcl) for name in wanted
    }
    if NETWORK_STACK in folders:
        _write(folders[NETWORK_STACK] / wheel.source, wheel.content)
    _write(out_dir / "manifest.json", _manifest(texts).encode())
    return folders


def write_stack(name: str, text: str, *, out_dir: Path, lock_hcl: Path | None = None) -> Path:
    """Write a stack's configuration, and the provider's lock file, for Terraform; return the
    folder. Raises `InvalidInput` if it would lead elsewhere.
    """
    folder = _own_folder(out_dir / "stacks" / name)
    _write(folder / "cdk.tf.json", text.encode())
    _write(folder / ".terraform.lock.hcl", (lock_hcl or LOCK_HCL).read_bytes())
    return folder


def _texts(
    jobs: Sequence[Inputs],
    wheel: HostWheel,
    cache_dir: Path | None,
    other_python: OtherPython | None,
) -> dict[str, str]:
    """Return each stack's JSON, from the cache if possible."""
    nameless = {job.name: _nameless(job) for job in jobs}
    code = "" if cache_dir is None else _code_digest(wheel, other_python)
    keys = {
        name: _digest(json.dumps({"code": code, **job.facts()}, sort_keys=True))
        for name, job in nameless.items()
    }
    distinct = {key: nameless[name] for name, key in keys.items()}
    texts = _kept(distinct, cache_dir)
    missing = {key: job for key, job in distinct.items() if key not in texts}
    whose = ", ".join(name for name, key in keys.items() if key in missing)
    for key, text in _rendered(missing, whose, other_python).items():
        texts[key] = text
        if cache_dir is not None:
            _write(_kept_file(cache_dir, key), f"{_digest(text)}\n{text}".encode())
    return {name: texts[key].replace(_STAND_IN, name) for name, key in keys.items()}


def _nameless(inputs: Inputs) -> Inputs:
    """Return a cluster's input with the placeholder's name, if its own can replace it: an isolated
    cluster's roles shorten it, and a private one's digest of ``cluster.json`` depends on it.
    """
    if (
        not isinstance(inputs, ClusterInputs)
        or inputs.cluster.private_to_creator
        or inputs.settings.workspace.isolation == "cluster"
        or _STAND_IN in json.dumps(inputs.facts())
    ):
        return inputs
    return replace(inputs, name=_STAND_IN)


def _kept(keys: Iterable[str], cache_dir: Path | None) -> dict[str, str]:
    if cache_dir is None:
        return {}
    found = {key: _read_kept(_kept_file(cache_dir, key)) for key in keys}
    return {key: text for key, text in found.items() if text is not None}


def _kept_file(cache_dir: Path, key: str) -> Path:
    return cache_dir / f"{key}.tf.json"


def _rendered(
    jobs: Mapping[str, Inputs], whose: str, other_python: OtherPython | None
) -> dict[str, str]:
    """Synthesise all stacks together, importing the framework here or in another Python; those with
    the placeholder's name temporarily need different names.
    """
    if not jobs:
        return {}
    if other_python is None:
        from terradask_stacks.app import render
    else:
        from terradask_stacks.rendering import OtherProcess

        render = OtherProcess(other_python.get()).render
    names = {
        key: f"{_STAND_IN}-{number}" if job.name == _STAND_IN else job.name
        for number, (key, job) in enumerate(jobs.items())
    }
    renamed = [replace(job, name=names[key]) for key, job in jobs.items()]
    texts = render(renamed, whose=whose)
    return {key: texts[names[key]].replace(names[key], job.name) for key, job in jobs.items()}


def _read_kept(path: Path) -> str | None:
    try:
        digest, _, text = path.read_text(encoding="utf-8").partition("\n")
    except (OSError, UnicodeDecodeError):
        return None
    return text if digest == _digest(text) else None


def _code_digest(wheel: HostWheel, other_python: OtherPython | None) -> str:
    """Return a digest of all code involved: versions of the framework, here or in the other Python,
    and our own sources.
    """
    digest = hashlib.sha256(wheel.sha256.encode())
    framework = versions_here() if other_python is None else other_python.versions()
    versions = {"terradask": terradask_version(), **framework}
    digest.update(json.dumps(versions, sort_keys=True).encode())
    for path in _sources():
        digest.update(path.name.encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _sources() -> Iterator[Path]:
    for folder in own_folders():
        for path in sorted(folder.rglob("*")):
            if path.is_file() and "__pycache__" not in path.parts:
                yield path


def _manifest(texts: Mapping[str, str]) -> str:
    """Return the input of the ``cdktf`` command, with the version of the framework that wrote the
    stacks; clusters are destroyed before their network.
    """
    versions = {json.loads(text)["//"]["metadata"]["version"] for text in texts.values()}

    def entry(name: str) -> dict[str, Any]:
        return {
            "annotations": [],
            "constructPath": name,
            "dependencies": [NETWORK_STACK]
            if name != NETWORK_STACK and NETWORK_STACK in texts
            else [],
            "name": name,
            "stackMetadataPath": f"stacks/{name}/metadata.json",
            "synthesizedStackPath": f"stacks/{name}/cdk.tf.json",
            "workingDirectory": f"stacks/{name}",
        }

    document = {
        "stacks": {name: entry(name) for name in sorted(texts)},
        "version": max(versions, default=None),
    }
    return json.dumps(document, indent=2) + "\n"


def _own_folder(folder: Path) -> Path:
    """Return a stack's folder, unless writing there would write elsewhere."""
    for own in (folder.parent, folder, folder / FOLDER):
        if own.is_symlink():
            raise InvalidInput(
                "a symbolic link where a stack is written",
                given=f"{own} leads to {own.readlink()}",
                allowed="a folder",
                advice="remove the link",
            )
    return folder


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically; an identical one stays untouched, a link doesn't."""
    if path.is_file() and not path.is_symlink() and path.read_bytes() == content:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content, mode=0o644)
