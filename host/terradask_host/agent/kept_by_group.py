"""What is under way in groups of workers, and its copy in the bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from terradask_host.agent.aws import error_code
from terradask_host.trouble import Trouble

T = TypeVar("T")


class KeptByGroup(dict[str, T]):
    """Values by group of workers, stored for the host program that may take this one's place.

    Parameters
    ----------
    what
        What they are, in the log.
    values
        Those of an earlier host program.
    keep
        Stores them.
    log
        Takes lines.
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
        """Store one before its first number is sent; raises what storing it does.

        The next host program is to know why numbers are not as they should be.
        """
        self._keep({**self, group: value})
        self[group] = value
        self._stored = dict(self)

    def end(self, group: str) -> None:
        """Forget a group's; where that can't be stored, `store` tries it again."""
        del self[group]
        self.store()

    def store(self) -> None:
        """Store what isn't yet."""
        if self == self._stored:
            return
        try:
            self._keep(self)
        except Exception as error:  # noqa: BLE001 - whatever the bucket has, numbers must move
            self._trouble.note(f"{self._what} can't be stored: {error_code(error)}: {error}")
        else:
            self._stored = dict(self)
            self._trouble.is_over()
