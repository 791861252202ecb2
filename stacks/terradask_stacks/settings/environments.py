"""A table ``[environments.NAME]``: packages under a name, for the clusters of a workspace."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from terradask_stacks.settings.base import Section
from terradask_stacks.validators.dask import check_environment_source

#: Each workspace has it, unless its settings have another one of this name.
DEFAULT_ENVIRONMENT = "default"


class EnvironmentSettings(Section):
    """Packages that ``terradask env create`` resolves, and clusters name in ``software``."""

    software: Annotated[list[str] | str, AfterValidator(check_environment_source)] = Field(
        default=["numpy", "pandas", "pyarrow"],
        description="What hosts get besides Dask: PEP 508 requirements, in the versions of the "
        "environment that creates it where they leave a choice; or a file, relative to "
        "terradask.toml, as for cluster.software.",
    )
    architecture: Literal["x86_64", "arm64"] = Field(
        default="x86_64", description="Processor architecture of the hosts."
    )
