"""A workspace's network as deployed: read once; without one, what the settings say."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from terradask._network.baseline import Baseline, Isolated, read_baseline
from terradask.errors import BaselineError
from terradask_modules.names import clusters_role_path
from terradask_modules.where import Where

if TYPE_CHECKING:
    from terradask._aws.session import Aws
    from terradask_stacks.settings import Settings


class DeployedNetwork:
    """What clusters read of the network. AWS is asked only when a method or property needs it."""

    def __init__(self, aws: Aws, settings: Settings) -> None:
        self._aws = aws
        self._settings = settings
        self._baseline: Baseline | None = None

    @property
    def where(self) -> Where:
        """The workspace, deployed or not."""
        workspace = self._settings.workspace
        return Where(
            partition=self._aws.partition,
            region=workspace.region,
            account=self._aws.account_id,
            workspace=workspace.name,
        )

    @property
    def bucket(self) -> str:
        """The workspace's bucket, deployed or not."""
        return self.where.bucket

    def baseline(self) -> Baseline:
        """Return the baseline, read once; raise what `read_baseline` raises."""
        if self._baseline is None:
            self._baseline = read_baseline(self._aws, self.bucket)
        return self._baseline

    def forget(self) -> None:
        """Read the baseline anew when it is needed next: it was applied or destroyed."""
        self._baseline = None

    def isolated(self) -> Isolated | None:
        """Return how clusters' own roles are named; None if clusters share the workspace's."""
        workspace, network = self._settings.workspace, self._settings.network
        with suppress(BaselineError):
            return self.baseline().isolated
        if workspace.isolation == "workspace":
            return None
        path = clusters_role_path(workspace.name, network.role_path)
        return Isolated(role_path=path, role_name_prefix=network.role_name_prefix)

    def own_templates(self) -> bool:
        """Return whether clusters may have launch templates of their own."""
        with suppress(BaselineError):
            return self.baseline().cluster_launch_templates
        return self._settings.network.cluster_launch_templates
