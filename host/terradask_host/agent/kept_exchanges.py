"""The exchanges that are under way, and their copy in the bucket."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from terradask_host.agent.aws import error_code
from terradask_host.scaling_policy import Exchange
from terradask_host.trouble import Trouble


class KeptExchanges:
    """Exchanges by group of workers, stored for the host program that may take this one's place.

    Parameters
    ----------
    exchanges
        Those that an earlier host program had begun.
    keep
        Stores them.
    log
        Takes lines.
    """

    def __init__(
        self,
        exchanges: Mapping[str, Exchange],
        keep: Callable[[Mapping[str, Exchange]], None],
        log: Callable[[str], None],
    ) -> None:
        self._exchanges = dict(exchanges)
        self._keep = keep
        self._is_kept = True
        self._trouble = Trouble(log)

    def __bool__(self) -> bool:
        return bool(self._exchanges)

    def get(self, group: str) -> Exchange | None:
        """Return a group's."""
        return self._exchanges.get(group)

    def begin(self, group: str, exchange: Exchange) -> None:
        """Store one before its first number is sent; raises what storing it does.

        The next host program is to know why numbers are not as they should be.
        """
        self._keep({**self._exchanges, group: exchange})
        self._exchanges[group] = exchange

    def end(self, group: str) -> None:
        """Forget a group's; where that can't be stored, `store` tries it again."""
        del self._exchanges[group]
        self._is_kept = False
        self.store()

    def store(self) -> None:
        """Store what isn't yet."""
        if self._is_kept:
            return
        try:
            self._keep(self._exchanges)
        except Exception as error:  # noqa: BLE001 - whatever the bucket has, numbers must move
            self._trouble.note(f"exchanges can't be stored: {error_code(error)}: {error}")
        else:
            self._is_kept = True
            self._trouble.is_over()
