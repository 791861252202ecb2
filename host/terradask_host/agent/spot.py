"""Spot interruptions: the rebalance recommendation, the interruption notice, and its deadline.

AWS (documented, spot-rebalance): A rebalance recommendation for a Spot instance may come before its
interruption notice, or at the same time.
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/rebalance-recommendations.html
"""

from __future__ import annotations

import datetime
import threading
import time
from collections.abc import Callable
from typing import Any

from terradask_host.agent.event_queue import EventQueue, Recommended, Stop
from terradask_host.documents import SPOT_NOTICE
from terradask_host.errors import MetadataUnavailable
from terradask_host.metadata import InstanceMetadata
from terradask_host.timing import Timing

#: AWS (documented, spot-notice): A Spot interruption notice comes two minutes before the
#: interruption, with its action and time at spot/instance-action of the metadata service.
#: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
NOTICE_SECONDS = 120.0


def stop_of_notice(
    notice: dict[str, Any],
    *,
    now: datetime.datetime,
    monotonic_seconds: float,
    margin_seconds: float,
) -> Stop:
    """Convert a notice to a stop request, with its reason and deadline.

    A notice has the metadata service's ``action`` and ``time``; an unreadable or implausible time
    counts as two minutes from now. The deadline is `margin_seconds` before AWS acts.
    """
    action, at = notice.get("action") or "interrupt", notice.get("time")
    left = NOTICE_SECONDS
    try:
        told = datetime.datetime.fromisoformat(str(at))
        left = min(max((told - now).total_seconds(), 0.0), NOTICE_SECONDS)
    except (ValueError, TypeError):
        at = None
    when = f" at {at}" if at else ""
    return Stop(
        f"{SPOT_NOTICE}: AWS will {action} this instance{when}",
        until=monotonic_seconds + left - margin_seconds,
    )


class SpotWatch:
    """Polls for notice and recommendation on a thread; on an on-demand instance it ends at once.

    Puts a `Recommended` and a `Stop` among the events, each once.
    """

    def __init__(
        self,
        metadata: InstanceMetadata,
        events: EventQueue,
        timing: Timing,
        log: Callable[[str], None],
    ) -> None:
        self._metadata = metadata
        self._events = events
        self._timing = timing
        self._log = log
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="spot-watch", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop polling."""
        self._closing.set()
        self._thread.join(5.0)

    def _watch(self) -> None:
        spot: bool | None = None
        recommended = False
        while not self._closing.is_set():
            try:
                spot = self._metadata.is_spot() if spot is None else spot
                if not spot:
                    return
                notice = self._metadata.spot_notice()
                if notice is None and not recommended and self._metadata.rebalance_recommended():
                    recommended = True
                    self._log("AWS recommends to replace this instance")
                    self._events.put(Recommended())
            except MetadataUnavailable:
                # The metadata service answers again later, or the instance is gone.
                notice = None
            if notice is not None:
                self._put_stop(notice)
                return
            self._closing.wait(self._timing.spot_poll_seconds)

    def _put_stop(self, notice: dict[str, Any]) -> None:
        stop = stop_of_notice(
            notice,
            now=datetime.datetime.now(datetime.UTC),
            monotonic_seconds=time.monotonic(),
            margin_seconds=self._timing.spot_margin_seconds,
        )
        self._log(stop.reason)
        self._events.put(stop)
