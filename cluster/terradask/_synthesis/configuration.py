"""Write a stack's Terraform configuration from settings, answers and the deployed network."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._common.progress import Progress, Warned, phase
from terradask._observe.store import DESCRIPTOR, ClusterObjects
from terradask._synthesis.answers import (
    ClusterAnswers,
    ClusterResolver,
    HardwareExplanation,
    check_network,
    encrypting,
    network_lock,
    on_deployed_network,
)
from terradask._synthesis.framework_environment import (
    FrameworkEnvironment,
    await_first_synthesis,
    begin_first_synthesis,
)
from terradask._synthesis.resolve_network import check_account
from terradask._terraform.provider_lock import lock_in_use
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.bare_stack import bare_stack
from terradask_stacks.host_scripts import read_host_scripts
from terradask_stacks.lock import LockFile, NetworkLock, read_lock
from terradask_stacks.synthesis import OtherPython, synthesize, write_stack
from terradask_stacks.user_folders import cache_folder

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask._network.deployed import DeployedNetwork
    from terradask_stacks.loading import LoadedSettings


#: Longest list of stacks in a progress message; longer ones are counted.
_NAMED = 4


@dataclass(frozen=True)
class Configuration:
    """Write the configurations of a workspace's stacks."""

    _loaded: LoadedSettings
    _aws: Aws
    _network: DeployedNetwork
    _progress: Progress

    def network(self, *, refresh: bool = False, check: bool = False) -> Path:
        """Write the network's configuration; new answers are locked first."""
        other_python = self._other_python()
        begin_synthesis(self._progress)
        if check:
            with phase(self._progress, "check", NETWORK_STACK):
                for finding in check_network(self._loaded, self._aws):
                    self._progress(Warned(f"likely wrong: {finding}"))
        lock = self._network_lock(refresh=refresh, check=True)
        with phase(self._progress, "synthesise", NETWORK_STACK):
            return synthesise(self._loaded, network=lock, other_python=other_python)[NETWORK_STACK]

    def answers(
        self, name: str, *, refresh: bool = False, loaded: LoadedSettings | None = None
    ) -> ClusterAnswers:
        """Return the input of a cluster's stack, checked against the deployed network; by default
        with its isolation and encryption.
        """
        # Before any call to AWS.
        self._other_python()
        resolver = self._resolver(self._on_deployed_network() if loaded is None else loaded)
        with phase(self._progress, "resolve", name):
            baseline, deployed = self._network.baseline(), self._descriptor(name).get("lock")
            return resolver.deployed(name, baseline, deployed, refresh=refresh)

    def cluster(self, name: str, answers: ClusterAnswers) -> Path:
        """Write a cluster's configuration, from its answers."""
        loaded, clusters = self._on_deployed_network(), {name: answers}
        with phase(self._progress, "synthesise", name):
            return synthesise(loaded, clusters=clusters, other_python=self._other_python())[name]

    def to_destroy(self, name: str) -> Path:
        """Write a configuration by which Terraform destroys all that a stack's state has, under any
        settings; nothing is synthesised.
        """
        loaded, where = self._loaded, self._network.where
        if name == NETWORK_STACK:
            check_account(where.account, read_lock(loaded.lock_path).network, self._aws)
        else:
            loaded = encrypting(loaded, self._network.baseline().kms_key_arn)
        _keep_states_out_of_git(loaded)
        return write_stack(
            name,
            json.dumps(bare_stack(name, loaded.settings, where), indent=2),
            out_dir=loaded.out_dir,
            lock_hcl=lock_in_use(os.environ),
        )

    def stack(self, name: str, *, destroy: bool = False) -> Path:
        """Write the configuration of the network or a cluster."""
        if destroy:
            return self.to_destroy(name)
        return self.network() if name == NETWORK_STACK else self.cluster(name, self.answers(name))

    def every(self, names: Iterable[str], *, out: Path | None = None) -> dict[str, Path]:
        """Write several configurations; declared clusters use the network of the same file."""
        other_python = self._other_python()
        names = list(names)
        declared = self._loaded.settings.clusters.keys() & set(names)
        # The owners of locked images are checked when a plan is made or opened.
        network = (
            self._network_lock(refresh=False, check=False)
            if declared or NETWORK_STACK in names
            else None
        )
        loaded = self._loaded if network is not None else self._on_deployed_network()
        answers: dict[str, ClusterAnswers] = {}
        for name in names:
            if name in declared and network is not None:
                answers[name] = self._resolver(loaded).declared(name, network)
            elif name != NETWORK_STACK:
                answers[name] = self.answers(name, loaded=loaded)
        with phase(
            self._progress,
            "synthesise",
            ", ".join(names) if len(names) <= _NAMED else f"{len(names)} stacks",
        ):
            return synthesise(
                loaded,
                network=network if NETWORK_STACK in names else None,
                clusters=answers,
                out=out,
                other_python=other_python,
            )

    def explain(self, name: str) -> HardwareExplanation:
        """Return a cluster's instance types on the deployed network, with reasons."""
        with phase(self._progress, "resolve", name):
            baseline, deployed = self._network.baseline(), self._descriptor(name).get("lock")
            return self._resolver(self._loaded).explain(name, baseline, deployed)

    def _on_deployed_network(self) -> LoadedSettings:
        return on_deployed_network(self._loaded, self._network.baseline())

    def _resolver(self, loaded: LoadedSettings) -> ClusterResolver:
        return ClusterResolver(loaded, self._aws, self._progress)

    def _network_lock(self, *, refresh: bool, check: bool) -> NetworkLock:
        with phase(self._progress, "resolve", NETWORK_STACK):
            return network_lock(self._loaded, self._aws, refresh=refresh, check=check)

    def _other_python(self) -> OtherPython | None:
        """Return what provides another Python for the framework, if it isn't in this one."""
        return FrameworkEnvironment.here(self._progress).other_python()

    def _descriptor(self, name: str) -> Mapping[str, Any]:
        return ClusterObjects(self._aws, self._network.bucket, name).read(DESCRIPTOR) or {}


def synthesise(
    loaded: LoadedSettings,
    *,
    network: NetworkLock | None = None,
    clusters: Mapping[str, ClusterAnswers] = MappingProxyType({}),
    out: Path | None = None,
    other_python: OtherPython | None = None,
) -> dict[str, Path]:
    """Write all stacks together: the framework starts once, or not at all without a change."""
    if out is None:
        _keep_states_out_of_git(loaded)
    await_first_synthesis()
    return synthesize(
        loaded.settings,
        LockFile(
            network=network, clusters={name: answers.lock for name, answers in clusters.items()}
        ),
        out_dir=out or loaded.out_dir,
        stacks=[*([NETWORK_STACK] if network is not None else []), *clusters],
        clusters={name: answers.settings.cluster for name, answers in clusters.items()},
        scripts={} if network is None else read_host_scripts(loaded),
        lock_hcl=lock_in_use(os.environ),
        cache_dir=_cache_dir(),
        other_python=other_python,
    )


def begin_synthesis(progress: Progress) -> None:
    """Begin the user's first synthesis, in a thread."""
    begin_first_synthesis(FrameworkEnvironment.here(progress), _cache_dir())


def _keep_states_out_of_git(loaded: LoadedSettings) -> None:
    """Exclude folders from git: states and plans contain secrets in plain text."""
    for folder in (loaded.out_dir, loaded.state_dir):
        ignore = folder / ".gitignore"
        if not ignore.exists():
            folder.mkdir(parents=True, exist_ok=True)
            ignore.write_text("*\n", encoding="utf-8")


def _cache_dir() -> Path:
    return cache_folder() / "synthesis"
