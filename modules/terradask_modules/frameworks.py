"""The frameworks that can write Terraform's JSON, and the AWS provider that stacks run with.

Importing this imports neither framework. The golden stacks hold that both write the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version

#: The provider that stacks require with either framework; the lock file has its checksums.
PROVIDER_SOURCE = "hashicorp/aws"
PROVIDER_VERSION = "5.100.0"
#: Of Terraform itself.
REQUIRED_TERRAFORM = ">= 1.11.0"


@dataclass(frozen=True)
class Framework:
    """A framework, and its bindings of the AWS provider."""

    #: Its Python package. The stacks' metadata has its version.
    package: str
    #: The Python package of the bindings.
    bindings: str
    #: The version of the AWS provider whose resources the bindings describe.
    described: str
    #: Distributions that both come from, each with its version or the beginning of it.
    distributions: Mapping[str, str]

    @property
    def names(self) -> tuple[str, ...]:
        """All distributions that decide the bytes of a stack."""
        return (*self.distributions, *COMMON_PACKAGES)

    def lacking(self) -> list[str]:
        """Return what this environment lacks of it, such as ``no jsii``."""
        found = {name: installed_version(name) for name in self.names}
        return [f"no {name}" for name, number in found.items() if number is None] + [
            f"{name} {found[name]}, not {wanted}"
            for name, wanted in self.distributions.items()
            if found[name] is not None and not f"{found[name]}.".startswith(f"{wanted}.")
        ]


#: Every framework needs these: the base of its classes, and the bridge to Node.
COMMON_PACKAGES = ("constructs", "jsii")

CDKTF = Framework(
    package="cdktf",
    bindings="cdktf_cdktf_provider_aws",
    described=PROVIDER_VERSION,
    distributions={"cdktf": "0.21.0", "cdktf-cdktf-provider-aws": "20.1.0"},
)
CDKTN = Framework(
    package="cdktn",
    bindings="cdktn_provider_aws",
    described="6.69.1",
    distributions={"cdktn": "0.24", "cdktn-provider-aws": "25"},
)
#: The first one that is installed is used.
FRAMEWORKS = (CDKTF, CDKTN)

#: The distributions of all of them.
FRAMEWORK_DISTRIBUTIONS = frozenset(name for each in FRAMEWORKS for name in each.names)


def installed_framework() -> Framework | None:
    """Return the framework that a synthesis in this environment uses, or None."""
    return next((each for each in FRAMEWORKS if not each.lacking()), None)


def lacking() -> list[str]:
    """Return what this environment lacks of a framework: of the one that it has a part of."""
    begun = (
        each for each in FRAMEWORKS if any(installed_version(name) for name in each.distributions)
    )
    return [] if installed_framework() is not None else next(begun, CDKTF).lacking()


def versions_here() -> dict[str, str]:
    """Return the versions of the framework that a synthesis in this environment uses."""
    used = installed_framework()
    found = {name: installed_version(name) for name in used.names} if used is not None else {}
    return {name: number for name, number in found.items() if number is not None}


def installed_version(distribution: str) -> str | None:
    """Return the version of a distribution in this environment, or None."""
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
