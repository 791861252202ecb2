"""The part of ``[cluster]`` that says which packages hosts install; and tables
``[environments.NAME]``, packages under a name for the clusters of a workspace.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from terradask_stacks.settings.base import Section, Texts
from terradask_stacks.validators.dask import (
    check_container,
    check_environment_source,
    check_package_names,
    check_software,
)
from terradask_stacks.validators.refusal import refuse

PackageNames = Annotated[Texts, AfterValidator(check_package_names)]


class SoftwareSettings(Section):
    """Packages of the hosts, besides Dask: named ones, those of the client's environment, or a
    container image.
    """

    container: Annotated[str, AfterValidator(check_container)] | None = Field(
        default=None,
        description="Container image that hosts run, such as 'ghcr.io/dask/dask:2026.7.1-py3.12', "
        "from a public registry or Amazon ECR (network.container_repositories), in place of the "
        "these packages. A tag's digest is locked when the cluster is planned.",
    )

    software: Annotated[list[str] | str, AfterValidator(check_software)] = Field(
        default=[],
        description=(
            "Packages that the hosts need in addition to Dask, as PEP 508 requirements, such as "
            "'pandas==3.0.1', in the versions of the environment where the cluster is started; or "
            "a file that has all of them, relative to terradask.toml: uv.lock, pylock.toml, "
            "pyproject.toml, a requirements file, or an environment.yml, which needs "
            "terradask[conda]; or the name of an environment."
        ),
    )
    software_lock: str | None = Field(
        default=None,
        min_length=1,
        description="Lock file of the environment where the cluster is started, with hashes, "
        "relative to terradask.toml: hosts install only archives that it has. A requirements file "
        "with --hash, uv.lock or pylock.toml. Unset: packages are installed by exact version.",
    )
    package_sync: bool | PackageNames | None = Field(
        default=None,
        description="Whether hosts get all packages of the environment where the cluster is "
        "started, in its versions; or the names of some, which come with what they need. Instead "
        "of software. uv resolves them for hosts there, with hashes. Unset: all, if neither "
        "software nor software_lock is given.",
    )
    package_sync_ignore: PackageNames = Field(
        default=[],
        description="Packages that package_sync leaves out, unless other packages need them.",
    )
    package_sync_strict: bool = Field(
        default=False,
        description="Whether package_sync leaves out packages whose version has no wheel for "
        "hosts. Otherwise hosts get another version with the same first number, if there is one.",
    )
    package_sync_fail_on: Literal["critical-only", "warning-or-higher", "any"] = Field(
        default="critical-only",
        description="What package_sync refuses, before anything is made: environments where hosts "
        "would lack Dask or packages that it needs (critical-only); where they would lack any "
        "(warning-or-higher); also those where they would get other versions (any).",
    )

    local_modules: bool = Field(
        default=False,
        description="Whether hosts get the Python modules and packages of the working directory, "
        "in which the cluster is started, as one more package.",
    )

    @model_validator(mode="after")
    def _one_source(self) -> SoftwareSettings:
        ways = ("package_sync", "software", "software_lock", "local_modules")
        if self.container and (given := [name for name in ways if getattr(self, name)]):
            raise refuse(
                f"cluster.container and cluster.{given[0]} are both given",
                allowed="one of them: an image has all packages",
                advice=f"leave {given[0]} out",
            )
        other = "software" if self.software else "software_lock" if self.software_lock else None
        if self.package_sync and other is not None:
            raise refuse(
                f"cluster.package_sync and cluster.{other} are both given",
                allowed="one of them: package_sync takes packages and hashes for all",
                advice=f"leave {other} out",
            )
        if isinstance(self.software, str) and self.software_lock is not None:
            raise refuse(
                "cluster.software names a file or an environment, and cluster.software_lock is "
                "given",
                allowed="one of them: a lock file or an environment has hashes",
                advice="leave software_lock out",
            )
        if self.local_modules and self.software_lock is not None:
            raise refuse(
                "cluster.local_modules and cluster.software_lock are both given",
                allowed="one of them: with software_lock, hosts install only what it has",
                advice="leave local_modules out",
            )
        return self


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
