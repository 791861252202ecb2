"""State in progress by group of workers, with its copy in the bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from terradask_host.agent.aws import describe_error
from terradask_host.trouble import Trouble

T = TypeVar("T")


class KeptByGroup(dict[str, T]):
    """Values by group of workers, stored for a later host program.

    `what` names them in the log, `values` are those of an earlier host program, `keep` stores them.
    """

    def __init__(
        self,
        what: str,
        values: Mapping[str, T],
        keep: Callable[[Mapping[str, T]], None],
        log: Callable[[str], None],
    ) -> None:
        super().__init__(values)
        self._what, self._keep = what, keep
        self._stored = dict(values)
        self._trouble = Trouble(log)

    def begin(self, group: str, value: T) -> None:
        """Store a value before the group's number changes; raises as storing does.

        So the next host program knows the reason for the numbers.
        """
        self._keep({**self, group: value})
        self[group] = value
        self._stored = dict(self)

    def end(self, group: str) -> None:
        """Remove a group's value; `store` retries a failed write."""
        del self[group]
        self.store()

    def store(self) -> None:
        """Store unsaved changes."""
        if self == self._stored:
            return
        try:
            self._keep(self)
        except Exception as error:  # noqa: BLE001 - scaling works without the copy
            self._trouble.note(f"{self._what} can't be stored: {describe_error(error)}")
        else:
            self._stored = dict(self)
            self._trouble.is_over()
