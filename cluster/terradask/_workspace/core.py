"""What a workspace is: its settings, a session of AWS, and the network that is deployed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from terradask._aws.session import Aws
from terradask._common.progress import Progress, silent
from terradask.errors import UnsupportedPlatform

if TYPE_CHECKING:
    from terradask._network.baseline import Baseline
    from terradask_stacks.loading import LoadedSettings
    from terradask_stacks.settings import Settings


class WorkspaceCore:
    """Settings, a session of AWS, and names."""

    def __init__(self, loaded: LoadedSettings, *, progress: Progress, path: Path | None, overrides: Mapping[str, Any]) -> None:
        self._loaded = loaded
        self._progress = progress
        self._path = path
        self._overrides = overrides
        self._baseline: Baseline | None = None
        self.aws = Aws(loaded.settings.workspace.region)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
        **overrides: Mapping[str, Any],
    ) -> Self:
        """Load a workspace from its settings.

        Parameters
        ----------
        path
            A ``terradask.toml`` or its folder. Unset: looked for from the working directory upwards; having none is fine.
        progress
            Called with every progress event. Unset: nobody is told.
        overrides
            Settings by section, above those of the file, Dask's configuration and the environment: ``cluster={"n_workers": 8}``.

        Raises
        ------
        SettingsError
            Listing everything that is wrong with the settings.
        UnsupportedPlatform
            On Windows.
        """
        if os.name == "nt":
            raise UnsupportedPlatform(
                "terradask doesn't run on Windows", allowed="Linux or macOS", advice="use the Windows Subsystem for Linux"
            )
        where = None if path is None else Path(path)
        return cls(load_with_dask(where, overrides), progress=progress or silent, path=where, overrides=overrides)

    def with_progress(self, progress: Progress) -> Self:
        """Return the same workspace, telling somebody else about its progress."""
        other = type(self)(self._loaded, progress=progress, path=self._path, overrides=self._overrides)
        other.aws, other._baseline = self.aws, self._baseline
        return other

    def __repr__(self) -> str:
        return f"Workspace({self.settings.workspace.name!r}, region={self.region!r}, root={str(self.root)!r})"

    @property
    def settings(self) -> Settings:
        """The settings."""
        return self._loaded.settings

    @property
    def settings_path(self) -> Path | None:
        """The ``terradask.toml`` that was read, if there was one."""
        return self._loaded.path

    @property
    def root(self) -> Path:
        """The folder of ``terradask.toml``, or the user's data folder for terradask."""
        return self._loaded.root

    @property
    def region(self) -> str:
        """The AWS region."""
        return self.settings.workspace.region

    @property
    def account_id(self) -> str:
        """The AWS account's number."""
        return self.aws.account_id

    @property
    def bucket(self) -> str:
        """The workspace's bucket: descriptors, states and the host program."""
        from terradask_modules.names import bucket_name

        return bucket_name(self.settings.workspace.name, self.account_id, self.region)

    def baseline(self) -> Baseline:
        """Return the deployed network, read once.

        Raises
        ------
        NoBaseline
            If it isn't deployed.
        BaselineFormat
            If it was deployed by a version of terradask that this one doesn't fit.
        """
        from terradask._network.baseline import read_baseline

        if self._baseline is None:
            self._baseline = read_baseline(self.aws, self.bucket)
        return self._baseline


def load_with_dask(path: Path | None, overrides: Mapping[str, Any]) -> LoadedSettings:
    """Load settings, with what Dask's configuration says under ``terradask``."""
    import dask.config

    from terradask_stacks.loading import load_settings

    found = dask.config.get("terradask", None)
    return load_settings(path, dask_config=found if isinstance(found, Mapping) else None, overrides=overrides)
