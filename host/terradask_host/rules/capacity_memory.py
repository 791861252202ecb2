"""What AWS couldn't launch lately. Pure."""

from __future__ import annotations

from terradask_host.rules.launch_problem import LaunchProblem

#: A problem is remembered for this long, as in Karpenter.
REMEMBERED_SECONDS = 180.0


class CapacityMemory:
    """What AWS couldn't launch in the last minutes, by group and, if AWS names it, by type."""

    def __init__(self, remembered_seconds: float = REMEMBERED_SECONDS) -> None:
        self._remembered_seconds = remembered_seconds
        self._at: dict[tuple[str, str | None], tuple[float, LaunchProblem]] = {}

    def note(self, group: str, problem: LaunchProblem, at: float) -> None:
        """Remember a group's problem and the time of it, in seconds."""
        known = self._at.get((group, problem.instance_type))
        if known is None or known[0] <= at:
            self._at[group, problem.instance_type] = (at, problem)

    def problems(self, group: str, now: float) -> tuple[LaunchProblem, ...]:
        """Return a group's problems that are still remembered at a time, the newest first."""
        found = [
            (at, problem)
            for (name, _), (at, problem) in self._at.items()
            if name == group and now - at < self._remembered_seconds
        ]
        return tuple(problem for _, problem in sorted(found, key=lambda entry: -entry[0]))

    def exhausted(self, now: float) -> frozenset[str]:
        """Return the groups that AWS can't serve now: a launch, which tries every type, failed."""
        names = {name for name, _ in self._at}
        return frozenset(
            name
            for name in names
            if any(problem.kind != "other" for problem in self.problems(name, now))
        )
