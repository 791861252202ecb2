"""The contents of a stack's state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from terradask._common.json_text import parse_json
from terradask._terraform.program import OPENTOFU, TERRAFORM, Program
from terradask.errors import StateConflict, TerraformError


@dataclass(frozen=True)
class StateVersion:
    """The lineage and serial of a state; empty and zero if there is none."""

    serial: int = 0
    lineage: str = ""

    def is_before(self, other: StateVersion) -> bool:
        """Return whether another version is newer; never across lineages."""
        return self.lineage == other.lineage and self.serial < other.serial


@dataclass(frozen=True)
class StateInfo(StateVersion):
    """The known contents of a state."""

    #: The resources in it, without data sources: address -> id.
    ids: Mapping[str, str] = field(default_factory=dict)

    @property
    def version(self) -> StateVersion:
        """The lineage and serial."""
        return StateVersion(self.serial, self.lineage)

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> StateInfo:
        """Read Terraform's JSON. Raises `TerraformError`."""
        try:
            ids = {
                ".".join(
                    filter(None, (resource.get("module"), resource["type"], resource["name"]))
                ): str(resource["instances"][0].get("attributes", {}).get("id", ""))
                for resource in document.get("resources", [])
                if resource.get("mode") == "managed" and resource.get("instances")
            }
            return cls(int(document["serial"]), str(document["lineage"]), ids)
        except (AttributeError, LookupError, TypeError, ValueError, OverflowError):
            raise unknown_format() from None


def unknown_format() -> TerraformError:
    """Return the error for a state that has another format than Terraform's."""
    return TerraformError(
        "the state isn't in Terraform's format",
        verb="state",
        advice="restore an earlier version of it",
    )


def state_of(content: bytes, name: str) -> Any:
    """Return a state's bytes as Terraform's JSON; None if empty. Raises `TerraformError`."""
    try:
        document = parse_json(content) if content.strip() else None
    except ValueError as error:
        raise TerraformError(
            "the state can't be read: its writing was interrupted",
            verb="state",
            given=f"{name}: {error}",
            advice="restore an earlier version of the object: aws s3api list-object-versions "
            "shows them",
        ) from error
    if isinstance(document, Mapping) and _ENCRYPTED in document:
        raise TerraformError(
            "OpenTofu has encrypted the state, so terradask can't check it",
            verb="state",
            given=name,
            allowed="a state that only S3 encrypts",
            advice="let OpenTofu decrypt it, with the method `unencrypted` and the present one as "
            "its fallback: https://opentofu.org/docs/language/state/encryption; then run terradask "
            "without TF_ENCRYPTION",
        )
    return document


#: The contents of an encrypted state; its serial and lineage are plain.
_ENCRYPTED = "encrypted_data"


def check_writer(
    document: Mapping[str, Any], program: Program, name: str, warn: Callable[[str], None]
) -> None:
    """Refuse a state that only OpenTofu can continue, and warn before OpenTofu takes over one.

    Raises `StateConflict`.
    """
    writers = {
        each
        for each in (TERRAFORM, OPENTOFU)
        for resource in document.get("resources") or ()
        if resource.get("provider") == each.provider_in_state
    }
    if program is TERRAFORM and OPENTOFU in writers:
        raise StateConflict(
            "OpenTofu wrote the state, and this is Terraform",
            verb="state",
            given=f"{name} names {OPENTOFU.provider}",
            allowed=f"{TERRAFORM.provider}, or OpenTofu",
            advice="run terradask with OpenTofu: TERRAFORM_BINARY_NAME=tofu; to go back to "
            "Terraform, see docs/state.md, Terraform or OpenTofu",
        )
    if program is OPENTOFU and TERRAFORM in writers:
        warn(
            f"Terraform wrote {name}: the next apply makes it OpenTofu's, and Terraform can't "
            "continue it then"
        )
