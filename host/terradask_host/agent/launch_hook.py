"""Complete a host's launch, for which AWS waits in a group with prepared hosts."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self

from terradask_host.agent.aws import Aws, is_aws_error
from terradask_host.metadata import InstanceMetadata

#: AWS may hold an instance only some seconds after it runs; one whose launch is complete has none.
HOOK_TRIES = 12


class LaunchHook:
    """The hook of a group with a warm pool: AWS holds a launched instance until its host completes
    it. `group` is the name of the Auto Scaling group, which is also the hook's.

    An instance that AWS prepares for the pool is stopped then, and one that joins its group goes
    into service. AWS does the same by itself once the hook's time is over.

    Permission: ``autoscaling:CompleteLifecycleAction`` on the cluster's groups.
    """

    def __init__(
        self, aws: Aws, group: str, instance_id: str, *, log: Callable[[str], None]
    ) -> None:
        self._aws = aws
        self._group = group
        self._instance_id = instance_id
        self._log = log

    @classmethod
    def of_instance(
        cls,
        metadata: InstanceMetadata,
        aws: Aws,
        instance_id: str,
        *,
        log: Callable[[str], None],
    ) -> Self | None:
        """Return the hook of this instance's group; None if the group has no warm pool."""
        group = metadata.warm_pool()
        return None if group is None else cls(aws, group, instance_id, log=log)

    def complete_soon(self, pause_seconds: float) -> bool:
        """Complete it within some tries; return whether that succeeded."""
        for _ in range(HOOK_TRIES):
            if self.complete():
                return True
            time.sleep(pause_seconds)
        return False

    def complete(self) -> bool:
        """Let AWS go on; return whether it does.

        It refuses where nothing waits: for a restarted host program, and before AWS has noticed
        that the instance runs.
        """
        try:
            self._aws.client("autoscaling").complete_lifecycle_action(
                AutoScalingGroupName=self._group,
                LifecycleHookName=self._group,
                InstanceId=self._instance_id,
                LifecycleActionResult="CONTINUE",
            )
        except Exception as error:
            if not is_aws_error(error):
                raise
            self._log(f"the launch hook can't be completed: {error}")
            return False
        return True
