"""Ending hosts that never join, from the scheduler's host: it sees the groups and the workers, and
needs no client for it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping

from terradask_host.agent.aws import error_code
from terradask_host.agent.host import Host
from terradask_host.rules import join_watchdog
from terradask_host.rules.join_watchdog import Action, GiveUp, GroupMemory, Members


class JoinWatchdog:
    """Compares the groups of workers with the workers at the scheduler, and acts on those that have
    had their time.

    `on_given_up` is called with an Auto Scaling group before it is given up.
    """

    def __init__(self, host: Host, *, on_given_up: Callable[[str], None]) -> None:
        self._host = host
        self._on_given_up = on_given_up
        self._memory: Mapping[str, GroupMemory] = {}
        #: The instances whose workers joined since the last check that AWS answered.
        self._joined: set[str] = set()
        self._trouble: str | None = None

    def check(self, worker_names: Iterable[str]) -> frozenset[str] | None:
        """Take the workers that joined since the last call: compare, decide, act. What AWS refuses
        is tried again at the next call.

        Return the instances that the groups of workers have, as :meth:`instance_ids`.
        """
        self._joined |= {join_watchdog.instance_of(name) for name in worker_names}
        members = self._read_members()
        if members is None:
            return None
        self._memory, actions = join_watchdog.check(
            self._memory, members, self._joined, time.monotonic(), self._host.config.timing
        )
        self._joined = set()
        try:
            for action in actions:
                self._act(action)
            self._trouble = None
        except Exception as error:  # noqa: BLE001 - a scheduler goes on without it
            self._log_once(error)
        return _all_of(members)

    def instance_ids(self) -> frozenset[str] | None:
        """Return the instances that the groups of workers have, those that end included; None where
        AWS doesn't answer.
        """
        members = self._read_members()
        return None if members is None else _all_of(members)

    def _read_members(self) -> list[Members] | None:
        try:
            return self._host.groups.worker_members()
        except Exception as error:  # noqa: BLE001 - a scheduler goes on without it
            self._log_once(error)
            return None

    def _log_once(self, error: Exception) -> None:
        trouble = f"can't look after the hosts of workers: {error_code(error)}: {error}"
        if trouble != self._trouble:
            self._host.log.info(trouble)
        self._trouble = trouble

    def _act(self, action: Action) -> None:
        groups, note = self._host.groups, self._host.reporter.note
        if isinstance(action, GiveUp):
            self._on_given_up(action.group)
            for instance_id in action.instance_ids:
                groups.end(instance_id, replaced=False)
            groups.launch_no_more(action.group)
            text = (
                f"{action.failures} in a row ended without having joined: the group launches "
                "no more, until it is scaled again"
            )
        else:
            groups.end(action.instance_id, replaced=True)
            text = (
                f"{action.instance_id} had not joined after {action.waited_seconds:.0f} s: it "
                "is ended, and replaced"
            )
        self._host.log.info(f"{action.group}: {text}")
        note(action.group, "given up" if isinstance(action, GiveUp) else "removed", text)


def _all_of(members: Iterable[Members]) -> frozenset[str]:
    return frozenset().union(*(group.instance_ids | group.ending_ids for group in members))
