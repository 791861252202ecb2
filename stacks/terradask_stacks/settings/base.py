"""What the sections share: frozen models that refuse unknown keys, and types of values."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from terradask_stacks.validators.resources import check_instance_types, check_tags

Tags = Annotated[dict[str, str], AfterValidator(check_tags)]
InstanceTypes = Annotated[list[str], AfterValidator(check_instance_types)]
DiskSize = Annotated[int, Field(ge=8, le=16384)]
Port = Annotated[int, Field(ge=1, le=65535)]


class Section(BaseModel):
    """A section of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)
