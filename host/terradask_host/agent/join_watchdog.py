"""Ends hosts that never join or that hang, from the scheduler's host: no client is needed."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace

from terradask_host.agent.aws import describe_error
from terradask_host.agent.host import Host
from terradask_host.rules import join_watchdog
from terradask_host.rules.autoscaling_groups import Group
from terradask_host.rules.join_watchdog import Action, GiveUp, GroupMemory, Remove
from terradask_host.rules.membership import instance_of
from terradask_host.trouble import Trouble


class JoinWatchdog:
    """Compares the groups' instances with the workers at the scheduler, and ends overdue instances.

    `on_given_up` is called with an Auto Scaling group before it is given up.
    """

    def __init__(self, host: Host, *, on_given_up: Callable[[str], None]) -> None:
        self._host = host
        self._on_given_up = on_given_up
        self._memory: Mapping[str, GroupMemory] = {}
        #: The instances whose workers joined since the last answered check.
        self._joined: set[str] = set()
        #: Those whose workers left in order in that time.
        self._retired: set[str] = set()
        self._trouble = Trouble(host.log.info)
        #: AWS's last refusal.
        self._undone: list[Action] = []
        #: Instance -> its Auto Scaling group, by the cluster's own name of it; also of ended ones.
        self._group_of: dict[str, str] = {}

    def check(
        self, worker_names: Iterable[str], retired_names: Iterable[str] = ()
    ) -> frozenset[str] | None:
        """Compare the groups with the workers that joined and left since the last call, and act.

        Actions that AWS refuses are retried at the next call. Return as :meth:`instance_ids`.
        """
        joined = {instance_of(name) for name in worker_names}
        retired = {instance_of(name) for name in retired_names}
        self._joined |= joined
        self._retired = (self._retired - joined) | retired
        groups = self._read_groups()
        if groups is None:
            return None
        self._memory, actions = join_watchdog.check(
            self._memory,
            groups,
            self._joined,
            time.monotonic(),
            self._host.config.timing,
            retired=self._retired,
        )
        lacking = {one for group in groups for one in group.active_ids} - self._joined
        again = [due for each in self._undone if (due := _still_due(each, lacking)) is not None]
        self._joined, self._retired, self._undone = set(), set(), []
        for action in [*again, *actions]:
            try:
                self._act(action)
            except Exception as error:  # noqa: BLE001 - the scheduler works without it
                self._undone.append(action)
                self._note(error)
        if not self._undone:
            self._trouble.is_over()
        return _all_of(groups)

    def instance_ids(self) -> frozenset[str] | None:
        """Return the instances of the groups of workers, ending ones included; None on errors."""
        groups = self._read_groups()
        return None if groups is None else _all_of(groups)

    def _read_groups(self) -> list[Group] | None:
        try:
            groups = self._host.groups.of_workers()
        except Exception as error:  # noqa: BLE001 - the scheduler works without it
            self._note(error)
            return None
        self._group_of.update(
            {member.instance_id: group.name for group in groups for member in group.members}
        )
        return groups

    def worker_group_of(self, instance_id: str) -> str | None:
        """Return the group of workers that an instance is or was in; None if it isn't known."""
        name = self._group_of.get(instance_id)
        return None if name is None else self._host.cluster.groups[name].worker_group

    def _note(self, error: Exception) -> None:
        self._trouble.note(f"can't check the hosts of workers: {describe_error(error)}")

    def _act(self, action: Action) -> None:
        groups, note = self._host.groups, self._host.reporter.note
        if isinstance(action, GiveUp):
            self._on_given_up(action.group)
            for instance_id in action.instance_ids:
                groups.end(instance_id, replaced=False)
            groups.stop_launching(action.group)
            text = (
                f"{action.failures} in a row ended without having joined: the group stops "
                "launching until it is scaled again"
            )
        else:
            groups.end(action.instance_id, replaced=action.replaced)
            text = f"{action.instance_id} {_why(action)}"
        self._host.log.info(f"{action.group}: {text}")
        note(action.group, "given up" if isinstance(action, GiveUp) else "removed", text)


def _still_due(action: Action, lacking: Set[str]) -> Action | None:
    """Return the part of an action that is still due, given the instances without a worker."""
    if isinstance(action, GiveUp):
        left = tuple(each for each in action.instance_ids if each in lacking)
        return replace(action, instance_ids=left)
    return action if action.instance_id in lacking else None


def _why(action: Remove) -> str:
    seconds = f"{action.waited_seconds:.0f} s"
    if not action.joined:
        return f"had not joined after {seconds}: it is ended, and replaced"
    if not action.replaced:
        return f"was retired, and is still there after {seconds}: it is ended, and not replaced"
    return (
        f"had joined, and has had no worker at the scheduler for {seconds}: it is ended, and "
        "replaced"
    )


def _all_of(groups: Iterable[Group]) -> frozenset[str]:
    return frozenset(member.instance_id for group in groups for member in group.members)
