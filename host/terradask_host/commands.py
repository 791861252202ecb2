"""What clients ask of their cluster's scheduler: one form of command, one of reply, and their
version, as both ends have them.

A command is named by its class. Most come over Dask's own connection, as one operation of it; those
for which Dask's protocol isn't to be spoken, or hosts' certificates are not to do, come
`over_forward`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from terradask_host.document_fields import fields_of

#: Of commands and replies. It changes where one would be misread; an operation or a field that is
#: new needs no other.
FORMAT = 1

#: Dask's operation that takes commands.
OPERATION = "terradask_command"


@dataclass(frozen=True)
class Command:
    """One command, as a dataclass of its arguments: those of what takes it in the table of
    handlers.
    """

    #: Whether it comes over the dashboard's forward, which clients' certificates alone open and
    #: which speaks no protocol of Dask's, and in no other way.
    over_forward: ClassVar[bool] = False

    @property
    def words(self) -> str:
        """What it does, in messages, such as ``set keepalive``."""
        return re.sub("(?<=[a-z])(?=[A-Z])", " ", type(self).__name__).lower()

    def to_document(self) -> dict[str, Any]:
        """Return what is sent."""
        return {"format": FORMAT, "operation": type(self).__name__, "arguments": vars(self)}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the command with a document's arguments. Raises one of `documents.UNREADABLE`."""
        return cls(**fields_of(cls, document["arguments"]))


@dataclass(frozen=True)
class Adapt(Command):
    """Set how groups of workers scale themselves, as `ScalingPolicy` has it; None ends a group's.
    Answered with the policies of all groups once the host has taken them.
    """

    policies: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class Scale(Command):
    """Set the numbers of hosts of groups, which ends their adapting, and end these hosts. Answered
    with the ``policies`` of all groups, and those that were ``ended``, once AWS has been asked for
    the numbers and the hosts that leave have been ended.
    """

    numbers: Mapping[str, int]
    hosts: Sequence[str] = ()


@dataclass(frozen=True)
class ChooseHosts(Command):
    """Choose the hosts that such numbers of groups would end, the cheapest to lose first."""

    numbers: Mapping[str, int]


@dataclass(frozen=True)
class ReadPolicies(Command):
    """Return the policies of all groups that scale themselves."""


@dataclass(frozen=True)
class SetKeepalive(Command):
    """Set how long the cluster runs on without a client; None: for ever."""

    seconds: float | None


@dataclass(frozen=True)
class ShowTaskOutput(Command):
    """Send a client of Dask's, by its id, what tasks print and warn."""

    client: str


@dataclass(frozen=True)
class SendSecrets(Command):
    """Set environment variables and AWS credentials in all processes. Answered with the workers
    that were ``missed``.
    """

    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    credentials: Mapping[str, str] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class UpdatePackages(Command):
    """Install wheels, by the names of their files, and restart workers. Answered with what
    ``failed``, by address, and the workers whose results were ``lost``.
    """

    wheels: Mapping[str, bytes] = field(repr=False)


@dataclass(frozen=True)
class SubmitJob(Command):
    """Run a job of which nothing has begun, as `JobRecord` writes it, with the values of its
    environment variables, Dask's resources that a task needs, and its files packed.
    """

    document: Mapping[str, Any] = field(repr=False)
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    resources: Mapping[str, float] = field(default_factory=dict)
    files: bytes | None = field(default=None, repr=False)


@dataclass(frozen=True)
class ReadJob(Command):
    """Return a job's ``exit_code`` once it is over, or None when the wait is; and its ``record``
    with `rows`. None if there is no such job, as for the other commands about one.
    """

    job: str
    wait_seconds: float = 0.0
    rows: bool = False


@dataclass(frozen=True)
class ReadJobOutput(Command):
    """Return what a task has written since a byte, once there is something or the wait is over.
    None as well if it has ended and the bucket alone has it.
    """

    job: str
    index: int
    since: int = 0
    wait_seconds: float = 0.0


@dataclass(frozen=True)
class CancelJob(Command):
    """Let nothing more of a job run, and end what runs."""

    job: str


@dataclass(frozen=True)
class MakeReport(Command):
    """Make the performance report and keep it; with `last`, only if a task has ended since the one
    before.
    """

    over_forward = True

    last: bool = False


@dataclass(frozen=True)
class ReadDashboardLink(Command):
    """Return the ``port`` of the dashboard over HTTPS, and the ``path``, with its token, that opens
    it; None without one. With a notebook server, also the ``jupyter_path``.
    """

    over_forward = True
