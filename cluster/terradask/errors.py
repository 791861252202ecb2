"""Every error that terradask raises, in one tree.

::

    TerradaskError                       exit code 1
    ├── InvalidInput                     2   a value that was given can't be used
    │   ├── SettingsError                    terradask.toml, TERRADASK_*, Dask's configuration or arguments
    │   ├── LockError                        terradask.lock.json
    │   ├── SynthesisError                   no stack can be made from settings and locked answers
    │   ├── UnsupportedOption                a parameter that this version doesn't build yet
    │   ├── UnknownZone, UnknownInstanceType, UnknownImage
    │   └── NoIngress                        a cluster that nobody could reach
    ├── SetupError                       3   something on this machine is missing
    │   ├── TerraformMissing, TerraformTooOld
    │   └── UnsupportedPlatform
    ├── AwsError                         3   AWS can't be used as things are
    │   ├── NoCredentials, ExpiredCredentials, InvalidCredentials
    │   ├── AccessDenied                     names the action
    │   ├── RegionUnknown
    │   ├── EndpointUnreachable
    │   └── AccountChanged                   locked answers belong to another account
    ├── TerraformError                   4   Terraform failed; carries its diagnostics
    │   ├── ProviderUnavailable          3
    │   │   ├── RegistryUnreachable
    │   │   └── ProviderChecksumMismatch
    │   ├── BackendMissing               6   the bucket for the state doesn't exist
    │   ├── StateLocked                  5   names the holder
    │   ├── StalePlan                    5   the state changed since the plan
    │   └── TerraformCancelled         130
    ├── FolderBusy                       5   another process runs Terraform in this folder
    ├── PlanChanged                      5   the plan's file or configuration isn't what was planned
    ├── BaselineError                    6
    │   ├── NoBaseline                       the network isn't deployed
    │   ├── BaselineFormat                   client and network don't fit
    │   └── BaselineInUse                5   deployments exist on it
    └── ClusterError                     1
        ├── ClusterNotFound              6
        ├── ClusterStopped               6
        ├── SchedulerReplaced
        ├── HostFailed
        ├── SchedulerMissing             7   also a TimeoutError
        ├── WorkersMissing               7   also a TimeoutError
        └── VersionMismatch              3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from terradask_modules.errors import InvalidInput, TerradaskError
from terradask_stacks.errors import LockError, SettingsError, SynthesisError

if TYPE_CHECKING:
    from terradask._events import Diagnostic

__all__ = [
    "AccessDenied",
    "AccountChanged",
    "AwsError",
    "BackendMissing",
    "BaselineError",
    "BaselineFormat",
    "BaselineInUse",
    "ClusterError",
    "ClusterNotFound",
    "ClusterStopped",
    "EndpointUnreachable",
    "ExpiredCredentials",
    "FolderBusy",
    "HostFailed",
    "InvalidCredentials",
    "InvalidInput",
    "LockError",
    "NoBaseline",
    "NoCredentials",
    "NoIngress",
    "PlanChanged",
    "ProviderChecksumMismatch",
    "ProviderUnavailable",
    "RegionUnknown",
    "RegistryUnreachable",
    "SchedulerMissing",
    "SchedulerReplaced",
    "SettingsError",
    "SetupError",
    "StalePlan",
    "StateLocked",
    "SynthesisError",
    "TerradaskError",
    "TerraformCancelled",
    "TerraformError",
    "TerraformMissing",
    "TerraformTooOld",
    "UnknownImage",
    "UnknownInstanceType",
    "UnknownZone",
    "UnsupportedOption",
    "UnsupportedPlatform",
    "VersionMismatch",
    "WorkersMissing",
]


# ---- what was given -------------------------------------------------------------------------------------------------


class UnsupportedOption(InvalidInput):
    """A parameter that this version of terradask doesn't build yet.

    Parameters
    ----------
    option
        The parameter's name.
    given
        The value that was given for it.
    advice
        What to use instead.
    """

    def __init__(self, option: str, *, given: Any = None, advice: str | None = None) -> None:
        super().__init__(
            f"{option} is not supported by this version of terradask",
            given=given,
            advice=advice or f"leave {option} out",
        )
        self.option = option


class UnknownZone(InvalidInput):
    """An availability zone that the region doesn't have, or that this account can't use."""


class UnknownInstanceType(InvalidInput):
    """An instance type that the region or the zone doesn't offer."""


class UnknownImage(InvalidInput):
    """An image (AMI) that can't be found in the region."""


class NoIngress(InvalidInput):
    """A cluster that nobody could reach: no rule lets clients in."""


# ---- this machine ---------------------------------------------------------------------------------------------------


class SetupError(TerradaskError):
    """Something on this machine is missing or too old."""

    exit_code = 3


class TerraformMissing(SetupError):
    """No Terraform was found."""


class TerraformTooOld(SetupError):
    """The Terraform that was found is older than terradask needs."""


class UnsupportedPlatform(SetupError):
    """The client doesn't run on this operating system."""


# ---- AWS ------------------------------------------------------------------------------------------------------------


class AwsError(TerradaskError):
    """AWS can't be used as things are."""

    exit_code = 3


class NoCredentials(AwsError):
    """There are no AWS credentials."""


class ExpiredCredentials(AwsError):
    """The AWS credentials have expired."""


class InvalidCredentials(AwsError):
    """AWS doesn't know the credentials, or not in this region."""


class AccessDenied(AwsError):
    """The caller may not do something.

    Parameters
    ----------
    action
        The IAM action that was refused, such as ``ec2:DescribeAvailabilityZones``.
    problem
        What AWS said.
    """

    def __init__(self, action: str, problem: str) -> None:
        super().__init__(
            f"AWS refuses {action}",
            given=problem,
            advice=f"let an administrator allow {action} for this caller, or use another profile (AWS_PROFILE)",
        )
        self.action = action


class RegionUnknown(AwsError):
    """There is no such AWS region."""

    exit_code = 2


class EndpointUnreachable(AwsError):
    """AWS doesn't answer."""


class AccountChanged(AwsError):
    """Locked answers belong to another AWS account than the credentials."""

    exit_code = 5


# ---- Terraform ------------------------------------------------------------------------------------------------------


class TerraformError(TerradaskError):
    """Terraform failed.

    Parameters
    ----------
    problem
        What went wrong, in one sentence.
    verb
        The Terraform command, such as ``plan``.
    folder
        The stack's folder.
    exit_code_of_terraform
        The exit code of Terraform's process; negative: ended by that signal.
    diagnostics
        What Terraform said, structured.
    """

    exit_code = 4

    def __init__(
        self,
        problem: str,
        *,
        verb: str = "",
        folder: str = "",
        exit_code_of_terraform: int | None = None,
        diagnostics: Sequence[Diagnostic] = (),
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.verb = verb
        self.folder = folder
        self.exit_code_of_terraform = exit_code_of_terraform
        self.diagnostics = tuple(diagnostics)

    def as_dict(self) -> dict[str, Any]:
        """Return the fields for ``--json`` output."""
        return {**super().as_dict(), "diagnostics": [d.as_dict() for d in self.diagnostics]}


class ProviderUnavailable(TerraformError):
    """Terraform can't get the AWS provider."""

    exit_code = 3


class RegistryUnreachable(ProviderUnavailable):
    """The Terraform registry doesn't answer."""


class ProviderChecksumMismatch(ProviderUnavailable):
    """The provider that was found is not the one in the lock file."""


class BackendMissing(TerraformError):
    """The bucket that holds the state doesn't exist."""

    exit_code = 6


class StateLocked(TerraformError):
    """Somebody else holds the state's lock.

    Attributes
    ----------
    holder
        Who holds it, as ``user@host``.
    since
        Since when, as Terraform writes it.
    lock_id
        The id that ``terraform force-unlock`` takes.
    operation
        What the holder does, as Terraform writes it.
    """

    exit_code = 5

    holder: str | None = None
    since: str | None = None
    lock_id: str | None = None
    operation: str | None = None


class StalePlan(TerraformError):
    """The state has changed since the plan was made."""

    exit_code = 5


class TerraformCancelled(TerraformError):
    """The command was cancelled, and Terraform stopped in order."""

    exit_code = 130


class FolderBusy(TerradaskError):
    """Another process runs Terraform in this folder.

    Parameters
    ----------
    folder
        The stack's folder.
    pid
        The other process, where it said so.
    waited_seconds
        How long this process has waited.
    """

    exit_code = 5

    def __init__(self, folder: str, *, pid: int | None, command: str | None, waited_seconds: float) -> None:
        who = f"process {pid}" if pid else "another process"
        doing = f" ({command})" if command else ""
        super().__init__(
            f"{who}{doing} works in {folder}; waited {waited_seconds:.0f} s",
            advice="wait for it to end, or end it with one Ctrl-C so that Terraform can stop in order",
        )
        self.folder = folder
        self.pid = pid
        self.waited_seconds = waited_seconds


class PlanChanged(TerradaskError):
    """A plan's file or its configuration isn't what was planned.

    Parameters
    ----------
    what
        ``file`` or ``configuration``.
    """

    exit_code = 5

    def __init__(self, problem: str, *, what: str, given: Any = None, advice: str | None = None) -> None:
        super().__init__(problem, given=given, advice=advice or "plan again, look at the new plan, and apply that one")
        self.what = what


# ---- the baseline ---------------------------------------------------------------------------------------------------


class BaselineError(TerradaskError):
    """Something about the network that clusters share."""

    exit_code = 6


class NoBaseline(BaselineError):
    """The network isn't deployed."""


class BaselineFormat(BaselineError):
    """Client and network were made by versions of terradask that don't fit.

    Parameters
    ----------
    found
        The format in the bucket.
    known
        The format that this client reads.
    """

    def __init__(self, problem: str, *, found: Any, known: int, advice: str) -> None:
        super().__init__(problem, given=f"format {found}", allowed=f"format {known}", advice=advice)
        self.found = found
        self.known = known


class BaselineInUse(BaselineError):
    """The network can't be destroyed while deployments stand on it.

    Parameters
    ----------
    clusters
        Names of the deployments.
    """

    exit_code = 5

    def __init__(self, clusters: Sequence[str]) -> None:
        super().__init__(
            f"{len(clusters)} deployment{'s' if len(clusters) != 1 else ''} still on this network",
            given=", ".join(clusters),
            advice="destroy them first: " + "; ".join(f"terradask destroy {name}" for name in clusters),
        )
        self.clusters = tuple(clusters)


# ---- clusters -------------------------------------------------------------------------------------------------------


class ClusterError(TerradaskError):
    """Something about one cluster.

    Parameters
    ----------
    problem
        What went wrong.
    cluster
        The cluster's name.
    """

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        given: Any = None,
        allowed: str | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, given=given, allowed=allowed, advice=advice)
        self.cluster = cluster


class ClusterNotFound(ClusterError, LookupError):
    """There is no such cluster in the workspace."""

    exit_code = 6


class ClusterStopped(ClusterError):
    """The cluster is deployed, and stopped."""

    exit_code = 6


class SchedulerReplaced(ClusterError):
    """The scheduler's host was replaced: what the old scheduler knew is gone."""


class HostFailed(ClusterError):
    """A host could not do its work.

    Parameters
    ----------
    instance_id
        The instance.
    reason
        Why, in the host's own words.
    log_tail
        The last lines of its log.
    """

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        instance_id: str | None = None,
        reason: str | None = None,
        log_tail: Sequence[str] = (),
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, given=reason, advice=advice)
        self.instance_id = instance_id
        self.reason = reason
        self.log_tail = tuple(log_tail)

    def __str__(self) -> str:
        """Return the problem, and the end of the host's log."""
        tail = "".join(f"\n  | {line}" for line in self.log_tail)
        return super().__str__() + tail


class SchedulerMissing(ClusterError, TimeoutError):
    """The scheduler wasn't up, or didn't answer, in time."""

    exit_code = 7


class WorkersMissing(ClusterError, TimeoutError):
    """Fewer workers than wanted have come in time.

    Parameters
    ----------
    wanted
        How many were waited for.
    arrived
        How many came.
    """

    exit_code = 7

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        wanted: int | None = None,
        arrived: int | None = None,
        advice: str | None = None,
    ) -> None:
        given = None if wanted is None else f"{arrived or 0} of {wanted} workers"
        super().__init__(problem, cluster=cluster, given=given, advice=advice)
        self.wanted = wanted
        self.arrived = arrived


class VersionMismatch(ClusterError):
    """Client and cluster run different versions.

    Parameters
    ----------
    client, hosts
        Version by package name, as here and as on the cluster.
    """

    exit_code = 3

    def __init__(
        self,
        problem: str,
        *,
        cluster: str | None = None,
        client: Mapping[str, str] | None = None,
        hosts: Mapping[str, str] | None = None,
        advice: str | None = None,
    ) -> None:
        super().__init__(problem, cluster=cluster, advice=advice)
        self.client = dict(client or {})
        self.hosts = dict(hosts or {})

    def __str__(self) -> str:
        """Return the problem with both lists, differing packages alone."""
        names = sorted({*self.client, *self.hosts})
        different = [n for n in names if self.client.get(n) != self.hosts.get(n)]
        lines = [f"  {n}: here {self.client.get(n, 'none')}, cluster {self.hosts.get(n, 'none')}" for n in different]
        return "\n".join([super().__str__(), *lines])
