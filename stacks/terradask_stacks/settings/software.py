"""The part of ``[cluster]`` that says which packages hosts install; and tables
``[environments.NAME]``, packages under a name for the clusters of a workspace.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from terradask_stacks.settings.base import Section, Texts
from terradask_stacks.settings.variables import check_login
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
        description="Container image that hosts run instead of installing packages, from a "
        "public registry or network.container_repositories, such as "
        "'ghcr.io/dask/dask:2026.7.1-py3.12'. Planning locks a tag's digest.",
        examples=["ghcr.io/dask/dask:2026.7.1-py3.12"],
    )

    container_credentials: Annotated[str, BeforeValidator(check_login)] | None = Field(
        default=None,
        description="ARN of the secret in AWS Secrets Manager with username and password for the "
        "container's registry, as JSON; for Amazon ECR none is needed. Hosts read it with their "
        "role, which needs network.task_rights for it.",
        examples=["arn:aws:secretsmanager:us-east-1:123456789012:secret:registry-AbCdEf"],
    )

    software: Annotated[list[str] | str, AfterValidator(check_software)] = Field(
        default=[],
        description="Packages in addition to Dask, as requirements such as 'pandas==3.0.1'; "
        "or a file relative to terradask.toml (uv.lock, pylock.toml, pyproject.toml, "
        "requirements, environment.yml); or an environment's name. Requirements get the "
        "versions of your environment.",
        examples=[["pandas==3.0.1"]],
    )
    software_lock: str | None = Field(
        default=None,
        min_length=1,
        description="Lock file with hashes, relative to terradask.toml (requirements with "
        "--hash, uv.lock, pylock.toml): hosts install only its archives. Unset: packages by "
        "exact version.",
        examples=["requirements.txt"],
    )
    package_sync: bool | PackageNames | None = Field(
        default=None,
        description="true: all packages of your environment, in its versions, by hash; a "
        "list: these and their dependencies. Unset: true without software and software_lock.",
        examples=[True],
    )
    package_sync_ignore: PackageNames = Field(
        default=[],
        description="Packages that package_sync leaves out, unless other packages need them.",
        examples=[["jupyterlab"]],
    )
    package_sync_strict: bool = Field(
        default=False,
        description="Leave out packages whose version has no wheel for hosts. false: hosts "
        "get another version with the same first number, if there is one.",
    )
    package_sync_fail_on: Literal["critical-only", "warning-or-higher", "any"] = Field(
        default="critical-only",
        description="Refuse environments in which hosts would lack Dask or its dependencies "
        "(critical-only), lack any package (warning-or-higher), or also get other versions "
        "(any).",
    )

    local_modules: bool = Field(
        default=False,
        description="Send the Python modules and packages of the working directory to hosts, "
        "as one more package.",
        examples=[True],
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
        description="Packages in addition to Dask: requirements, in the versions of the "
        "creator's environment where they allow several; or a file, as for cluster.software.",
    )
    architecture: Literal["x86_64", "arm64"] = Field(
        default="x86_64", description="Processor architecture of the hosts."
    )
