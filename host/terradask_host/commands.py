"""What clients ask of their cluster's scheduler: one form of command, one of reply, and their
version, as both ends have them.

A command's class is the record of its operation. Those of a cluster's client come over Dask's own
connection, as one operation of it; those for which Dask's protocol isn't to be spoken, or hosts'
certificates are not to do, come `over_forward`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from terradask_host.document_fields import typed
from terradask_host.structure import known_fields

#: Of commands and replies. It changes where one would be misread; an operation or a field that is
#: new needs no other.
FORMAT = 1

#: Dask's operation that takes commands.
OPERATION = "terradask_command"


@dataclass(frozen=True)
class Command:
    """One command, as a dataclass of its arguments.

    Attributes
    ----------
    operation
        Its name in documents.
    what
        What it belongs to, in messages.
    over_forward
        Whether it comes over the dashboard's forward, which clients' certificates alone open and
        which speaks no protocol of Dask's, and in no other way.
    """

    operation: ClassVar[str]
    what: ClassVar[str]
    over_forward: ClassVar[bool] = False

    def to_document(self) -> dict[str, Any]:
        """Return what is sent."""
        return {"format": FORMAT, "operation": self.operation, "arguments": dict(vars(self))}

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Return the command with a document's arguments. Raises one of `documents.UNREADABLE`."""
        return cls(**typed(cls, known_fields(cls, document["arguments"])))


@dataclass(frozen=True)
class Adapt(Command):
    """Set how groups of workers scale themselves, as `ScalingPolicy` has it; None ends a group's.
    Answered with the policies of all groups once the host has taken them.
    """

    operation = "adapt"
    what = "adaptive scaling"

    policies: Mapping[str, Mapping[str, Any] | None]


@dataclass(frozen=True)
class ReadPolicies(Command):
    """Return the policies of all groups that scale themselves."""

    operation = "policies"
    what = "adaptive scaling"
