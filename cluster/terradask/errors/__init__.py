"""Every error that terradask raises, in one tree.

::

    TerradaskError                       exit code 1
    ├── InvalidInput                      2 a given value can't be used
    │   ├── SettingsError                   in terradask.toml, variables or arguments
    │   ├── LockError                       terradask.lock.json
    │   ├── SynthesisError                  settings and locked answers don't make a stack
    │   ├── UnsupportedOption               a parameter that this version doesn't support yet
    │   ├── RuleError                       a team's Rego rules can't be read or evaluated
    │   ├── UnknownZone, UnknownInstanceType, UnknownImage
    │   ├── InvalidHardware                 cores, memory, … that can't be read
    │   ├── ArgumentCombination             parameters that exclude each other
    │   ├── NoMatchingType                  no instance type fits the request; names the nearest
    │   ├── CidrError                       the subnets don't fit into the network's block
    │   ├── SoftwareNotInstalled            a hosts' package isn't installed here as asked
    │   ├── SoftwareNotFromIndex            it came from a folder, a repository, a conda channel
    │   ├── SoftwareLockInvalid             the file that software_lock names can't be used
    │   ├── SoftwareNotLocked               that file lacks a package, its version, or its hashes
    │   └── NoIngress                       no rule lets clients in to the cluster
    ├── SetupError                        3 something on this machine is missing
    │   ├── RegoMissing                     rules are set, but their reader isn't installed
    │   ├── TerraformMissing, TerraformTooOld
    │   ├── SessionManagerPluginMissing     connect='ssm' needs AWS's plugin
    │   └── UnsupportedPlatform
    ├── AwsError                          3 AWS can't be used
    │   ├── NoCredentials, ExpiredCredentials, InvalidCredentials
    │   ├── ClockSkewed                     this machine's clock differs from AWS's
    │   ├── AccessDenied                    names the action
    │   ├── ServiceRoleMissing              a service-linked role that the caller may not create
    │   ├── QuotaTooSmall                 8 for what the settings can reach
    │   ├── QuotaExceeded                 8 for what a cluster starts with
    │   ├── RegionUnknown
    │   ├── EndpointUnreachable
    │   ├── BucketTaken                     a bucket's name belongs to another account
    │   └── AccountChanged                  locked answers belong to another account
    ├── TerraformError                    4 Terraform failed; carries its diagnostics
    │   ├── ProviderUnavailable             3
    │   │   ├── RegistryUnreachable
    │   │   └── ProviderChecksumMismatch
    │   ├── BackendMissing                6 the bucket for the state doesn't exist
    │   ├── StateLocked                   5 names the holder
    │   ├── StateConflict                 5 two states, neither may replace the other
    │   ├── StateNotMoved                 5 the state is not where the settings say
    │   ├── StateRolledBack               5 the state is older than what was applied last
    │   ├── StalePlan                     5 the state changed since the plan
    │   └── TerraformCancelled              130
    ├── NodeMissing                         synthesis needs Node.js
    ├── DocumentFormat                      an object in the bucket has another format
    │   └── ForeignDescriptor             8 cluster.json names what isn't the cluster's
    ├── FolderBusy                        5 another process runs Terraform in this folder
    ├── PlanChanged                       5 a saved plan isn't what was reviewed
    ├── PolicyViolation                   8 a plan has findings that stop its apply
    ├── BaselineError                       6
    │   ├── NoBaseline                      the network isn't deployed
    │   ├── ArchitectureMissing             it has no launch templates for a cluster's machines
    │   ├── BaselineFormat                  client and network have different formats
    │   └── BaselineInUse                 5 deployments still use it
    ├── SweepIncomplete                     orphaned resources could not be removed
    └── ClusterError                        1
        ├── ClusterNotFound                 6
        ├── ClusterExists                 6 a name that must be new, or must not run
        ├── ClusterPrivate                3 only its creator and named principals may read its keys
        ├── DocumentChanged                 a document isn't the one that the secret binds
        ├── ForeignResources              8 what a command was to change isn't the cluster's
        ├── ClusterStopped                  6
        │   └── ClusterEnded                by itself: idle, without a client, too old
        ├── ClusterClosed                   this object was closed
        ├── SchedulerReplaced
        ├── WorkersUntold                   some workers did not get what was sent to all
        ├── SchedulerUnreachable            also a ConnectionError
        │   └── SessionFailed               through Session Manager
        ├── HostFailed
        ├── SchedulerMissing              7 also a TimeoutError
        ├── WorkersMissing                7 also a TimeoutError
        ├── NoCapacity                    7 AWS launches nothing; has AWS's reason
        └── VersionMismatch                 3
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
    DocumentChanged,
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
from terradask.errors._foreign import ForeignDescriptor, ForeignResources
from terradask.errors._given import (
    NoIngress,
    SoftwareLockInvalid,
    SoftwareNotFromIndex,
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
from terradask_stacks.errors import (
    ArgumentCombination,
    InvalidHardware,
    LockError,
    SettingsError,
    SynthesisError,
)

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
    "DocumentChanged",
    "DocumentFormat",
    "EndpointUnreachable",
    "ExpiredCredentials",
    "FolderBusy",
    "ForeignDescriptor",
    "ForeignResources",
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
    "SoftwareNotFromIndex",
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
