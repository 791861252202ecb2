"""What a stack is made from: everything that its bytes depend on, as plain data. Pure."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask_modules.errors import InvalidInput
from terradask_modules.names import NETWORK_STACK
from terradask_stacks.host_scripts import HostScript, HostScripts
from terradask_stacks.host_wheel import HostWheel
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import (
    ClusterSettings,
    NetworkSettings,
    Settings,
    StateSettings,
    WorkspaceSettings,
    validate_cluster_name,
)
from terradask_stacks.version import terradask_version


@dataclass(frozen=True, kw_only=True)
class NetworkInputs:
    """The input of the network's stack."""

    settings: Settings
    lock: NetworkLock
    wheel: HostWheel
    scripts: HostScripts = field(default_factory=dict)
    name: str = NETWORK_STACK
    version: str = field(default_factory=terradask_version)

    def facts(self) -> dict[str, Any]:
        """Return everything that this stack's bytes depend on, except the code."""
        return {
            **_facts(self),
            "network": self.settings.network.model_dump(mode="json"),
            "state": self.settings.state.model_dump(mode="json", exclude={"lock_timeout_seconds"}),
            "wheel": [self.wheel.name, self.wheel.key],
            "scripts": {name: script.sha256 for name, script in self.scripts.items()},
        }

    def as_document(self) -> dict[str, Any]:
        """Return the input as JSON for another process: `facts`, and the content of files."""
        wheel = {"name": self.wheel.name, "content": _text(self.wheel.content)}
        scripts = {
            name: {"content": script.content_base64, "timeout_seconds": script.timeout_seconds}
            for name, script in self.scripts.items()
        }
        return {**self.facts(), "wheel": wheel, "scripts": scripts, "version": self.version}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> NetworkInputs:
        """Return the input in a document of `as_document`."""
        wheel = document["wheel"]
        return cls(
            # Validated where they were loaded: whatever they don't depend on has no value here.
            settings=Settings.model_construct(
                workspace=WorkspaceSettings.model_validate(document["workspace"]),
                network=NetworkSettings.model_validate(document["network"]),
                state=StateSettings.model_validate(document["state"]),
            ),
            lock=NetworkLock.model_validate(document["lock"]),
            wheel=HostWheel(wheel["name"], base64.b64decode(wheel["content"])),
            scripts={
                name: HostScript(base64.b64decode(script["content"]), script["timeout_seconds"])
                for name, script in document["scripts"].items()
            },
            name=document["stack"],
            version=document["version"],
        )


@dataclass(frozen=True, kw_only=True)
class ClusterInputs:
    """The input of a cluster's stack."""

    settings: Settings
    lock: ClusterLock
    cluster: ClusterSettings
    name: str
    version: str = field(default_factory=terradask_version)

    def facts(self) -> dict[str, Any]:
        """Return everything that this stack's bytes depend on, except the code."""
        return {
            **_facts(self),
            "cluster": self.cluster.model_dump(mode="json"),
            "kms_key_arn": self.settings.network.kms_key_arn,
        }

    def as_document(self) -> dict[str, Any]:
        """Return the input as JSON for another process."""
        return {**self.facts(), "version": self.version}

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ClusterInputs:
        """Return the input in a document of `as_document`."""
        network = NetworkSettings.model_construct(kms_key_arn=document["kms_key_arn"])
        return cls(
            settings=Settings.model_construct(
                workspace=WorkspaceSettings.model_validate(document["workspace"]), network=network
            ),
            lock=ClusterLock.model_validate(document["lock"]),
            cluster=ClusterSettings.model_validate(document["cluster"]),
            name=document["stack"],
            version=document["version"],
        )


Inputs = NetworkInputs | ClusterInputs


def inputs_in(document: Mapping[str, Any]) -> Inputs:
    """Return the input in a document of `as_document`."""
    return (NetworkInputs if "network" in document else ClusterInputs).from_document(document)


def _text(content: bytes) -> str:
    return base64.b64encode(content).decode()


def _facts(inputs: Inputs) -> dict[str, Any]:
    return {
        "stack": inputs.name,
        "workspace": inputs.settings.workspace.model_dump(mode="json"),
        "lock": inputs.lock.model_dump(mode="json"),
    }


def inputs_of(
    name: str,
    settings: Settings,
    lock: LockFile,
    clusters: Mapping[str, ClusterSettings],
    wheel: HostWheel,
    *,
    scripts: HostScripts,
) -> Inputs:
    """Return a stack's input.

    Raises `InvalidInput` if an answer for it isn't locked yet, `InvalidInput` if there is no
    such stack.
    """
    if name == NETWORK_STACK:
        if lock.network is None:
            raise _missing_answers(name)
        return NetworkInputs(settings=settings, lock=lock.network, wheel=wheel, scripts=scripts)
    if name not in clusters:
        raise InvalidInput(
            "there is no such stack",
            given=name,
            allowed=", ".join([NETWORK_STACK, *sorted(clusters)]),
        )
    validate_cluster_name(name)
    if name not in lock.clusters:
        raise _missing_answers(name)
    return ClusterInputs(
        settings=settings, lock=lock.clusters[name], cluster=clusters[name], name=name
    )


def _missing_answers(name: str) -> InvalidInput:
    return InvalidInput(
        f"no locked answers for {name}: its zones, account and types have not been determined yet",
        given=name,
        advice=f"run: terradask plan {name}",
    )
