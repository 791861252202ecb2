"""``Attachment``: the data for a client's connection to a running cluster."""

from __future__ import annotations

from dataclasses import dataclass

from terradask._observe.documents import Descriptor
from terradask._observe.keys import KeySet
from terradask.errors import InvalidInput
from terradask_host.documents import Run, SchedulerAddress


@dataclass(frozen=True)
class Attachment:
    """The data for a client's connection to a running cluster."""

    descriptor: Descriptor
    run: Run
    scheduler: SchedulerAddress
    keys: KeySet

    def address(self, *, public: bool) -> str:
        """Return the scheduler's address to dial, public or private. Raises `InvalidInput`."""
        if not public:
            return self.scheduler.private_address
        if self.scheduler.public_address is None:
            raise InvalidInput(
                f"The scheduler of cluster {self.descriptor.cluster!r} has no public address.",
                given="connect='public'",
                allowed=(
                    "connect='private' (use_scheduler_public_ip=False), from a network that "
                    "reaches the VPC; or connect='ssm'"
                ),
                advice="pass connect, or set it in [cluster]",
            )
        return self.scheduler.public_address
