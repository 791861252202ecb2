"""Clients' commands to their cluster's scheduler: the format of commands and replies.

A command is named by its class. Most commands come over Dask's own connection, as one operation of
it; those that must not use Dask's protocol, or be open to hosts' certificates, come `over_forward`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from terradask_host.document_fields import fields_of

#: Format of commands and replies. It changes where an old reader would misread one; new operations
#: or fields don't change it.
FORMAT = 1

#: Dask's operation for commands.
OPERATION = "terradask_command"


@dataclass(frozen=True)
class Command:
    """One command, as a dataclass of its handler's arguments."""

    #: Whether it comes only over the dashboard's forward, which requires a client's certificate and
    #: doesn't use Dask's protocol.
    over_forward: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """Its name in messages, such as ``set keepalive``."""
        return re.sub("(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    def to_document(self) -> dict[str, Any]:
        """Return the document to send."""
        return {"format": FORMAT, "operation": type(self).__name__, "arguments": vars(self)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the command with a document's arguments. Raises one of `documents.UNREADABLE`."""
        return cls(**fields_of(cls, document["arguments"]))


@dataclass(frozen=True)
class Adapt(Command):
    """Set groups' scaling policies, as in `ScalingPolicy`; None ends a group's.

    The reply has the policies of all groups once the host has stored them.
    """

    policies: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Scale(Command):
    """Set groups' numbers of hosts, which ends their adapting, and end these hosts.

    The reply has the ``policies`` of all groups and the ``ended`` ones, once AWS has the numbers
    and the leaving hosts have been ended.
    """

    numbers: Mapping[str, int]
    hosts: Sequence[str] = ()


@dataclass(frozen=True)
class ChooseHosts(Command):
    """Choose the hosts that such numbers would end, the cheapest to lose first."""

    numbers: Mapping[str, int]


@dataclass(frozen=True)
class ReadPolicies(Command):
    """Return the policies of all groups that scale themselves."""


@dataclass(frozen=True)
class ReadLimits(Command):
    """Return what the workspace's limits keep from growing: group -> the ``limit``, and a ``text``
    with who uses it.
    """


@dataclass(frozen=True)
class ReadUse(Command):
    """Return what workers use now.

    ``hosts`` has each host's busy threads and bytes of memory, ``tasks`` the numbers of tasks by
    state, ``done`` how many results there were, and ``idle_seconds`` how long there was no work;
    beside it the timeouts in force: ``idle_timeout_seconds`` and ``no_client_timeout_seconds``.
    """


@dataclass(frozen=True)
class SetKeepalive(Command):
    """Set how long the cluster runs without a client; None: for ever."""

    seconds: float | None


@dataclass(frozen=True)
class ShowTaskOutput(Command):
    """Send the output and warnings of tasks to a Dask client, by its id."""

    client: str


@dataclass(frozen=True)
class SendSecrets(Command):
    """Set environment variables and AWS credentials in all processes; return ``missed`` workers."""

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class UpdatePackages(Command):
    """Install wheels, by file name, and restart workers.

    The reply has what ``failed``, by address, and the workers whose results were ``lost``.
    """

    wheels: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class TryTargets(Command):
    """Try to reach targets from a worker, by its name, or from the scheduler.

    Each has a ``kind`` and its ``facts``. The reply has the ``caller`` that AWS sees, the host's
    ``security_groups``, and ``results``, in the targets' order.
    """

    targets: Sequence[Mapping[str, Any]]
    #: Longest time of one connection or call.
    seconds: float
    worker: str | None = None


@dataclass(frozen=True)
class SubmitJob(Command):
    """Run a new job, in `JobRecord`'s form, with its environment variables, the Dask resources of a
    task, and its packed files.
    """

    document: Mapping[str, Any] = field(repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    resources: Mapping[str, float] = field(default_factory=dict)
    files: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReadJob(Command):
    """Return a job's ``exit_code``, or None at the end of the wait; and with `rows` its ``record``.

    This and the other commands about a job return None if the job doesn't exist.
    """

    job: str
    wait_seconds: float = 0.0
    rows: bool = False


@dataclass(frozen=True)
class ReadJobOutput(Command):
    """Return a task's output from a byte on, after a wait for some.

    None also for an ended task whose output only the bucket has.
    """

    job: str
    index: int
    since: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class CancelJob(Command):
    """Cancel a job: end its running tasks, start no others."""

    job: str


@dataclass(frozen=True)
class MakeReport(Command):
    """Make and store the performance report; with `last`, only if a task has ended since the
    previous one.
    """

    over_forward = True

    last: bool = False


@dataclass(frozen=True)
class ReadDashboardLink(Command):
    """Return the ``port`` of the HTTPS dashboard and its ``path`` with the token; None without one.

    With a notebook server, also the ``jupyter_path``.
    """

    over_forward = True
