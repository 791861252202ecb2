"""Synthesise a workspace's stacks: their folders and inputs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from terradask._terraform.folder_contents import LOCK_FILE
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.loading import user_folder
from terradask_stacks.lock import LockFile, NetworkLock
from terradask_stacks.synthesis import synthesize

if TYPE_CHECKING:
    from terradask._stacks.answers import ClusterAnswers
    from terradask_stacks.loading import LoadedSettings


def synthesise(
    loaded: LoadedSettings,
    *,
    network: NetworkLock | None = None,
    clusters: Mapping[str, ClusterAnswers] = MappingProxyType({}),
    out: Path | None = None,
) -> dict[str, Path]:
    """Write all stacks together: the framework starts once, or not at all without a change."""
    if out is None:
        for own in (loaded.out_dir, loaded.state_dir):
            _keep_out_of_git(own)
    return synthesize(
        loaded.settings,
        LockFile(
            network=network, clusters={name: answers.lock for name, answers in clusters.items()}
        ),
        out_dir=out or loaded.out_dir,
        stacks=[*([NETWORK_STACK] if network is not None else []), *clusters],
        clusters={name: answers.settings.cluster for name, answers in clusters.items()},
        lock_hcl=own_provider_lock(),
        cache_dir=_cache_dir(),
    )


def _keep_out_of_git(folder: Path) -> None:
    """Make git ignore a folder: states and plans contain secrets in plain text."""
    ignore = folder / ".gitignore"
    if not ignore.exists():
        folder.mkdir(parents=True, exist_ok=True)
        ignore.write_text("*\n")


def own_provider_lock() -> Path | None:
    """Return the user's own lock file of the provider. One of a repository isn't taken: by its
    checksums Terraform would run a provider that lies in the repository.
    """
    own = user_folder() / LOCK_FILE
    return own if own.is_file() else None


def _cache_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("terradask")) / "synthesis"
