"""What stays of a cluster outside of Terraform's reach, on its way in or out: instances, strays, objects in the bucket."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from terradask._progress import Message, Progress
from terradask._runtime.groups import Groups
from terradask._runtime.objects import STATE, STATE_LOCK, holds_nothing
from terradask._stacks import strays
from terradask_modules.names import GROUPS, group_name

if TYPE_CHECKING:
    from terradask._account.aws import Aws
    from terradask._runtime.deployment import Deployment


class ClusterRemains:
    """What has to be ended or removed before and after Terraform works on a cluster.

    Parameters
    ----------
    aws
        Session for the cluster's account and region.
    deployment
        The cluster, deployed or not.
    workspace
        Name of its workspace.
    progress
        Gets every event.
    """

    def __init__(self, aws: Aws, deployment: Deployment, *, workspace: str, progress: Progress) -> None:
        self._aws = aws
        self._deployment = deployment
        self._name = deployment.name
        self._workspace = workspace
        self._progress = progress

    def zero(self) -> None:
        """Bring the groups to zero, as far as they exist; by their names: a half-made cluster has no descriptor."""
        with self._aws.explained():
            Groups(self._aws, {group: group_name(self._workspace, self._name, group) for group in GROUPS}).zero()

    def remove_all(self) -> bool:
        """Remove groups and secret, whatever runs in them, and return whether there were any."""
        left = strays.existing(self._aws, workspace=self._workspace, cluster=self._name)
        strays.remove(self._aws, left, cluster=self._name, force=True)
        return bool(left)

    def remove_strays(self, creates: Iterable[str]) -> None:
        """Remove what an interrupted apply made without the state's knowing, where a plan is to create it.

        Parameters
        ----------
        creates
            The addresses that the plan creates.
        """
        left = strays.among(strays.existing(self._aws, workspace=self._workspace, cluster=self._name), creates)
        if left:
            names = ", ".join(stray.name for stray in left)
            self._progress(Message(f"removing what an interrupted deployment left: {names}"))
            strays.remove(self._aws, left, cluster=self._name, force=False)

    def forget_empty_state(self) -> None:
        """Remove the state without resources that Terraform writes when a first plan is interrupted: it would look like a cluster."""
        objects = self._deployment.objects
        with suppress(Exception):
            # With anything beside it, its lock among that, it is somebody's.
            if holds_nothing(objects):
                objects.delete([STATE])

    def forget(self) -> None:
        """Remove what is left of a destroyed cluster.

        Its state goes last: as long as that is there, the cluster can be found and destroyed again.
        """
        self.remove_all()
        objects = self._deployment.objects
        with self._aws.explained():
            objects.delete(key for key in objects.names() if key not in (STATE, STATE_LOCK))
            objects.delete([STATE])
