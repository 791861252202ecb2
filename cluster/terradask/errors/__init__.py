"""Every error that terradask raises, in one tree.

::

    TerradaskError                       exit code 1
    ├── InvalidInput                     2   a value that was given can't be used
    │   ├── SettingsError                    terradask.toml, TERRADASK_*, Dask's configuration or arguments
    │   ├── LockError                        terradask.lock.json
    │   ├── SynthesisError                   no stack can be made from settings and locked answers
    │   ├── UnsupportedOption                a parameter that this version doesn't build yet
    │   ├── RuleError                        a team's Rego rules can't be read or evaluated
    │   ├── UnknownZone, UnknownInstanceType, UnknownImage
    │   ├── InvalidHardware                  a number of cores, a size of memory, … that can't be read
    │   ├── ArgumentCombination              parameters that exclude each other
    │   ├── NoMatchingType                   no instance type is as asked for; names the nearest
    │   ├── CidrError                        the subnets don't fit into the network's block
    │   ├── SoftwareNotInstalled             a package that hosts shall have isn't installed here, or in another version
    │   ├── SoftwareLockInvalid              the file that software_lock names can't be used
    │   ├── SoftwareNotLocked                it lacks a package, its version, or its hashes
    │   └── NoIngress                        a cluster that no client could reach
    ├── SetupError                       3   something on this machine is missing
    │   ├── RegoMissing                      rules are set, and what reads them isn't installed
    │   ├── TerraformMissing, TerraformTooOld
    │   ├── SessionManagerPluginMissing      connect='ssm' takes AWS's plugin
    │   └── UnsupportedPlatform
    ├── AwsError                         3   AWS can't be used as things are
    │   ├── NoCredentials, ExpiredCredentials, InvalidCredentials
    │   ├── ClockSkewed                      this machine's clock differs from AWS's
    │   ├── AccessDenied                     names the action
    │   ├── ServiceRoleMissing               a service-linked role that the caller may not make
    │   ├── QuotaTooSmall                8   for what the settings can reach
    │   ├── QuotaExceeded                8   by what a cluster starts with
    │   ├── RegionUnknown
    │   ├── EndpointUnreachable
    │   ├── BucketTaken                      a bucket's name belongs to another account
    │   └── AccountChanged                   locked answers belong to another account
    ├── TerraformError                   4   Terraform failed; carries its diagnostics
    │   ├── ProviderUnavailable          3
    │   │   ├── RegistryUnreachable
    │   │   └── ProviderChecksumMismatch
    │   ├── BackendMissing               6   the bucket for the state doesn't exist
    │   ├── StateLocked                  5   names the holder
    │   ├── StateConflict                5   two states, neither may take the other's place
    │   ├── StateNotMoved                5   the state lies elsewhere than the settings say
    │   ├── StateRolledBack              5   the state is older than what was applied last
    │   ├── StalePlan                    5   the state changed since the plan
    │   └── TerraformCancelled         130
    ├── NodeMissing                          synthesis needs Node.js
    ├── DocumentFormat                       an object in the bucket is of another format, or none of terradask's
    ├── FolderBusy                       5   another process runs Terraform in this folder
    ├── PlanChanged                      5   a saved plan, or what it starts from, isn't what was reviewed
    ├── PolicyViolation                  8   a plan has findings that stop its apply
    ├── BaselineError                    6
    │   ├── NoBaseline                       the network isn't deployed
    │   ├── ArchitectureMissing              it has no launch templates for a cluster's machines
    │   ├── BaselineFormat                   client and network don't fit
    │   └── BaselineInUse                5   deployments exist on it
    ├── SweepIncomplete                      an orphan could not be removed
    └── ClusterError                     1
        ├── ClusterNotFound              6
        ├── ClusterExists                6   a name that must be new, or must not run
        ├── ClusterPrivate               3   its keys are for its creator, and those whom settings name
        ├── ClusterStopped               6
        │   └── ClusterEnded                 by itself: idle, without a client, too old
        ├── ClusterClosed                    this object has left its cluster
        ├── SchedulerReplaced
        ├── WorkersUntold                    don't have what was sent to all
        ├── SchedulerUnreachable             also a ConnectionError
        │   └── SessionFailed                    with Session Manager
        ├── HostFailed
        ├── SchedulerMissing             7   also a TimeoutError
        ├── WorkersMissing               7   also a TimeoutError
        ├── NoCapacity                   7   AWS launches nothing, and says why
        └── VersionMismatch              3
"""

from __future__ import annotations

from terradask.errors._aws import (
    AccessDenied,
    AccountChanged,
    AwsError,
    BucketTaken,
    ClockSkewed,
    EndpointUnreachable,
    ExpiredCredentials,
    InvalidCredentials,
    NoCredentials,
    QuotaExceeded,
    QuotaTooSmall,
    RegionUnknown,
    ServiceRoleMissing,
)
from terradask.errors._baseline import (
    ArchitectureMissing,
    BaselineError,
    BaselineFormat,
    BaselineInUse,
    NoBaseline,
)
from terradask.errors._cluster import (
    ClusterClosed,
    ClusterEnded,
    ClusterError,
    ClusterExists,
    ClusterNotFound,
    ClusterPrivate,
    ClusterStopped,
    DocumentFormat,
    HostFailed,
    NoCapacity,
    SchedulerMissing,
    SchedulerReplaced,
    SchedulerUnreachable,
    SessionFailed,
    SweepIncomplete,
    VersionMismatch,
    WorkersMissing,
    WorkersUntold,
)
from terradask.errors._given import (
    NoIngress,
    SoftwareLockInvalid,
    SoftwareNotInstalled,
    SoftwareNotLocked,
    UnknownImage,
    UnknownInstanceType,
    UnknownZone,
    UnsupportedOption,
)
from terradask.errors._hardware import NoMatchingType
from terradask.errors._machine import (
    SessionManagerPluginMissing,
    SetupError,
    TerraformMissing,
    TerraformTooOld,
    UnsupportedPlatform,
)
from terradask.errors._policy import (
    PolicyViolation,
    RegoMissing,
    RuleError,
)
from terradask.errors._terraform import (
    BackendMissing,
    FolderBusy,
    PlanChanged,
    ProviderChecksumMismatch,
    ProviderUnavailable,
    RegistryUnreachable,
    StalePlan,
    StateConflict,
    StateLocked,
    StateNotMoved,
    StateRolledBack,
    TerraformCancelled,
    TerraformError,
)
from terradask_modules.errors import CidrError, InvalidInput, NodeMissing, TerradaskError
from terradask_stacks.errors import ArgumentCombination, InvalidHardware, LockError, SettingsError, SynthesisError

__all__ = [
    "AccessDenied",
    "AccountChanged",
    "ArchitectureMissing",
    "ArgumentCombination",
    "AwsError",
    "BackendMissing",
    "BaselineError",
    "BaselineFormat",
    "BaselineInUse",
    "BucketTaken",
    "CidrError",
    "ClockSkewed",
    "ClusterClosed",
    "ClusterEnded",
    "ClusterError",
    "ClusterExists",
    "ClusterNotFound",
    "ClusterPrivate",
    "ClusterStopped",
    "DocumentFormat",
    "EndpointUnreachable",
    "ExpiredCredentials",
    "FolderBusy",
    "HostFailed",
    "InvalidCredentials",
    "InvalidHardware",
    "InvalidInput",
    "LockError",
    "NoBaseline",
    "NoCapacity",
    "NoCredentials",
    "NoIngress",
    "NoMatchingType",
    "NodeMissing",
    "PlanChanged",
    "PolicyViolation",
    "ProviderChecksumMismatch",
    "ProviderUnavailable",
    "QuotaExceeded",
    "QuotaTooSmall",
    "RegionUnknown",
    "RegistryUnreachable",
    "RegoMissing",
    "RuleError",
    "SchedulerMissing",
    "SchedulerReplaced",
    "SchedulerUnreachable",
    "ServiceRoleMissing",
    "SessionFailed",
    "SessionManagerPluginMissing",
    "SettingsError",
    "SetupError",
    "SoftwareLockInvalid",
    "SoftwareNotInstalled",
    "SoftwareNotLocked",
    "StalePlan",
    "StateConflict",
    "StateLocked",
    "StateNotMoved",
    "StateRolledBack",
    "SweepIncomplete",
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
    "WorkersUntold",
]

# Tracebacks and pickles name this package, not the file that a class stands in.
for _class in [globals()[_name] for _name in __all__]:
    if _class.__module__.startswith(f"{__name__}."):
        _class.__module__ = __name__
del _class
