"""The two programs that run stacks, Terraform and OpenTofu: their registries, versions, names."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from terradask_modules.frameworks import PROVIDER_SOURCE

Version = tuple[int, int, int]


@dataclass(frozen=True)
class Program:
    """A program that runs stacks."""

    name: str
    #: Its command, and its file's usual name.
    command: str
    minimum_version: Version
    #: The host of its registry, which is part of each provider's address in lock file and state.
    registry: str
    #: File names of its configuration in the home folder, the first has priority.
    settings: tuple[str, ...]

    @property
    def provider(self) -> str:
        """The AWS provider's address in the lock file and in plans."""
        return f"{self.registry}/{PROVIDER_SOURCE}"

    @property
    def provider_in_state(self) -> str:
        """The AWS provider's address in states."""
        return f'provider["{self.provider}"]'


#: Terraform 1.11 introduced locking in S3 without DynamoDB.
TERRAFORM = Program(
    name="Terraform",
    command="terraform",
    minimum_version=(1, 11, 0),
    registry="registry.terraform.io",
    settings=(".terraformrc",),
)

#: OpenTofu 1.11 encrypts the lock as the settings demand:
#: https://github.com/opentofu/opentofu/blob/v1.11/CHANGELOG.md.
OPENTOFU = Program(
    name="OpenTofu",
    command="tofu",
    minimum_version=(1, 11, 0),
    registry="registry.opentofu.org",
    settings=(".tofurc", ".terraformrc"),
)

#: In the order in which they are searched on PATH.
PROGRAMS = (TERRAFORM, OPENTOFU)


def without_registry(address: str) -> str:
    """Return a provider's address without the host of one of the two registries."""
    for program in PROGRAMS:
        address = address.removeprefix(f"{program.registry}/")
    return address


def program_of(addresses: Iterable[str]) -> Program:
    """Return the program of a plan, by the addresses of its providers."""
    prefix = f"{OPENTOFU.registry}/"
    return OPENTOFU if any(each.startswith(prefix) for each in addresses) else TERRAFORM
