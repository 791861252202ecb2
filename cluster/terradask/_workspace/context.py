"""``WorkspaceContext``: settings, AWS session, paths, progress and network of a workspace."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from terradask._aws.roles import Role
from terradask._aws.session import Aws
from terradask._common.progress import Message, Progress, Warned, warnings_logged
from terradask._network.deployed import DeployedNetwork

if TYPE_CHECKING:
    from terradask._synthesis.configuration import Configuration
    from terradask_stacks.loading import LoadedSettings
    from terradask_stacks.settings import Settings


@dataclass(frozen=True)
class SettingsSource:
    """The source of settings: an optional path, and overrides by section."""

    path: Path | None
    overrides: Mapping[str, Any]

    def load(self) -> LoadedSettings:
        """Load the settings, including those under ``terradask`` in Dask's configuration."""
        import dask.config

        from terradask_stacks.loading import load_settings

        found = dask.config.get("terradask", None)
        dask_config = found if isinstance(found, Mapping) else None
        return load_settings(self.path, dask_config=dask_config, overrides=self.overrides)

    def with_cluster(self, overrides: Mapping[str, Any]) -> SettingsSource:
        """Return a source whose section ``[cluster]`` is overridden."""
        cluster = {**self.overrides.get("cluster", {}), **overrides}
        return replace(self, overrides={**self.overrides, "cluster": cluster})


@dataclass(frozen=True)
class WorkspaceContext:
    """A workspace's settings, and the objects derived from them."""

    source: SettingsSource
    loaded: LoadedSettings
    aws: Aws
    network: DeployedNetwork
    progress: Progress

    @classmethod
    def load(
        cls, source: SettingsSource, *, progress: Progress = warnings_logged, aws: Aws | None = None
    ) -> WorkspaceContext:
        """Load the settings; by default with a new session of AWS."""
        loaded = source.load()
        aws = aws or _aws_of(loaded)
        return cls(source, loaded, aws, DeployedNetwork(aws, loaded.settings), progress)

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self.loaded.settings

    @property
    def name(self) -> str:
        """The workspace's name."""
        return self.settings.workspace.name

    @property
    def bucket(self) -> str:
        """The workspace's bucket."""
        return self.network.where.bucket

    @property
    def plans(self) -> Path:
        """The folder of plans that are not applied yet."""
        return self.loaded.state_dir / "plans"

    @property
    def stacks(self) -> Path:
        """The folder with a folder for each stack."""
        return self.loaded.out_dir / "stacks"

    def folder(self, stack: str) -> Path:
        """Return the folder of a synthesised stack, where Terraform runs."""
        return self.stacks / stack

    def message(self, text: str) -> None:
        """Report a text to the caller, as a progress event."""
        self.progress(Message(text))

    def warn(self, text: str) -> None:
        """Report a warning to the caller, as a progress event."""
        self.progress(Warned(text))


def configuration_of(
    context: WorkspaceContext, cluster_overrides: Mapping[str, Any] = MappingProxyType({})
) -> Configuration:
    """Return the writer of Terraform configurations, with overrides of ``[cluster]``."""
    from terradask._synthesis.configuration import Configuration

    loaded = (
        context.source.with_cluster(cluster_overrides).load()
        if cluster_overrides
        else context.loaded
    )
    return Configuration(loaded, context.aws, context.network, context.progress)


def _aws_of(loaded: LoadedSettings) -> Aws:
    """Return AWS as the settings' profile and role reach it."""
    workspace = loaded.settings.workspace
    role = None
    if workspace.role_arn is not None:
        # A file's author may be a stranger: see `RoleSession`.
        is_foreign = loaded.is_of_file("workspace.role_arn")
        role = Role(
            workspace.role_arn,
            workspace.external_id,
            origin=loaded.origins.get("workspace.role_arn", "workspace.role_arn"),
            accounts=frozenset(workspace.trusted_accounts) if is_foreign else None,
        )
    return Aws(workspace.region, profile=workspace.profile, role=role)
