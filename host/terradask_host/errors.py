"""Errors of the host program."""

from __future__ import annotations

from typing import Any


class HostError(Exception):
    """An expected failure of the host; its text becomes the reason in the host's report."""

    def __init__(
        self,
        problem: str,
        *,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem)
        self.problem = problem
        self.given = given
        self.allowed = allowed
        self.advice = advice

    def __str__(self) -> str:
        """Return the problem with what was given, what is allowed and what to do."""
        lines = [self.problem]
        if self.given is not None:
            lines.append(f"  given: {self.given}")
        if self.allowed is not None:
            lines.append(f"  allowed: {self.allowed}")
        if self.advice is not None:
            lines.append(f"  to do: {self.advice}")
        return "\n".join(lines)


class ConfigInvalid(HostError, ValueError):
    """``host.json``, an environment variable or an object of the bucket is invalid."""


class MetadataUnavailable(HostError):
    """The instance metadata service does not answer, or lacks a required value."""


class RunMissing(HostError, TimeoutError):
    """No ``run.json`` or secret of this instance's run appeared in time."""


class DocumentChanged(HostError):
    """A document of the run is not the one whose SHA-256 is in the cluster's secret."""


class ScriptFailed(HostError):
    """``network.host_setup`` or ``host_leave`` failed, ran too long, or isn't the applied one."""


class EnvironmentFailed(HostError):
    """The software environment could not be built."""


class VersionsDiffer(HostError):
    """Python, dask or distributed differ between this worker and its scheduler."""


class DistributedTooOld(HostError):
    """The environment's distributed has holes that a later version fixes."""


class GpusMissing(HostError):
    """NVIDIA's driver shows fewer GPUs than the machine has."""


class SecretUnreadable(HostError):
    """A secret that the run names by its ARN can't be read with the host's role."""


class KeysOnDisk(HostError):
    """The folder for keys is not in memory: its files may outlive the host."""


class MountFailed(HostError):
    """A file system for tasks can't be mounted."""


class DaskFailed(HostError):
    """The Dask process could not start, or died too often."""


class CommandRefused(HostError):
    """A client's command can't be carried out; the client raises this error with the reason."""

    def to_document(self) -> dict[str, Any]:
        """Return the error in a reply's form."""
        return {**vars(self), "given": None if self.given is None else str(self.given)}
