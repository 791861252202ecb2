"""Where a workspace's stacks are synthesised to, and from what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from terradask_modules.names import NETWORK_STACK
from terradask_stacks.lock import LockFile, NetworkLock
from terradask_stacks.synthesis import synthesize

if TYPE_CHECKING:
    from terradask._answers import ClusterAnswers
    from terradask_stacks.loading import LoadedSettings

_STATE_FOLDER = ".terradask"
_PROVIDER_LOCK = ".terraform.lock.hcl"


def synthesise_network(loaded: LoadedSettings, lock: NetworkLock, out: Path | None = None) -> Path:
    """Write the network's stack and return its folder."""
    folder = out or loaded.out_dir
    return synthesize(
        loaded.settings,
        LockFile(network=lock),
        out_dir=folder,
        stacks=[NETWORK_STACK],
        state_dir=_state_dir(loaded, folder),
        lock_hcl=_provider_lock(loaded),
        cache_dir=_cache_dir(),
    )[NETWORK_STACK]


def synthesise_cluster(loaded: LoadedSettings, name: str, answers: ClusterAnswers, out: Path | None = None) -> Path:
    """Write a cluster's stack and return its folder."""
    return synthesize(
        answers.settings,
        LockFile(clusters={name: answers.lock}),
        out_dir=out or loaded.out_dir,
        stacks=[name],
        clusters={name: answers.settings.cluster},
        public_workers=answers.public_workers,
        lock_hcl=_provider_lock(loaded),
        cache_dir=_cache_dir(),
    )[name]


def _state_dir(loaded: LoadedSettings, out: Path) -> Path | None:
    """Return None where the state lies beside the output: its path is then relative, the same on every machine."""
    return None if loaded.state_dir == out.parent / _STATE_FOLDER else loaded.state_dir


def _provider_lock(loaded: LoadedSettings) -> Path | None:
    own = loaded.root / _PROVIDER_LOCK
    return own if own.is_file() else None


def _cache_dir() -> Path:
    import platformdirs

    return Path(platformdirs.user_cache_dir("terradask")) / "synthesis"
