"""Every error that terradask raises, in one tree, which ``docs/python.md`` draws.

Each has `problem`, `given`, `allowed`, `advice` and `exit_code`, and its class says what to do::

    TerradaskError
        AwsError
            AccessDenied
            EndpointUnreachable
            InvalidCredentials
            NoCredentials
            QuotaExceeded
            RegionUnusable
        BaselineError
            NoBaseline
        ClusterError
            ClusterClosed
            ClusterExists
            ClusterNotFound
            ClusterPrivate
            ClusterStopped
            DocumentChanged
            ForeignResources
            HostFailed
            JobLost
            JobNotFound
            JobTimeout
            NoCapacity
            ReportNotFound
            SchedulerMissing
            SchedulerReplaced
            SchedulerUnreachable
            VersionMismatch
            WorkersMissing
            WorkersUntold
        DocumentFormat
            ForeignDescriptor
        FolderBusy
        InUse
        InvalidInput
            NoMatchingType
            SettingsError
            SoftwareUnusable
        PlanChanged
        PolicyViolation
        SetupError
        SoftwareNotResolved
        TerraformError
            BackendMissing
            ProviderUnavailable
            StalePlan
            StateConflict
            StateLocked
            TerraformCancelled
"""

from __future__ import annotations

from terradask.errors._aws import *
from terradask.errors._cluster import *
from terradask.errors._given import *
from terradask.errors._kept import *
from terradask.errors._terraform import *
from terradask_modules.errors import *
from terradask_modules.errors import TerradaskError as TerradaskError  # for type checkers
from terradask_stacks.errors import *


def __dir__() -> list[str]:
    """Return the names of the errors."""
    classes = {name: each for name, each in globals().items() if isinstance(each, type)}
    return sorted(name for name, each in classes.items() if issubclass(each, TerradaskError))


# Tracebacks and pickles name this package, not the file that a class stands in.
for _class in [globals()[_name] for _name in __dir__()]:
    if _class.__module__.startswith(f"{__name__}."):
        _class.__module__ = __name__
del _class
