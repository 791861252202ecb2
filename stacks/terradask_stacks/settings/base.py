"""What the sections share: frozen models that refuse unknown keys, and types of values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field

from terradask_stacks.validators.names import validate_cluster_name
from terradask_stacks.validators.refusal import refuse, refusing, unique
from terradask_stacks.validators.resources import check_instance_types
from terradask_stacks.validators.tags import check_tags


def _listed(value: Any) -> Any:
    """Return a text as a list of one."""
    return [value] if isinstance(value, str) else value


def _no_switch(value: Any) -> Any:
    """Return a value that is neither true nor false."""
    if isinstance(value, bool):
        raise refuse(f"{str(value).lower()} is not a number", allowed="a number")
    return value


#: Every setting that is a number is one of these: pydantic alone takes true for 1, false for 0.
Whole = Annotated[int, BeforeValidator(_no_switch)]
Number = Annotated[float, BeforeValidator(_no_switch)]
#: A list of texts; a text is one of a single entry.
Texts = Annotated[list[str], BeforeValidator(_listed)]
Tags = Annotated[dict[str, str], AfterValidator(check_tags)]
InstanceTypes = Annotated[Texts, AfterValidator(check_instance_types)]
ClusterNames = Annotated[
    list[Annotated[str, AfterValidator(refusing(validate_cluster_name))]], AfterValidator(unique)
]
DiskSize = Annotated[Whole, Field(ge=8, le=16384)]
Port = Annotated[Whole, Field(ge=1, le=65535)]


class Section(BaseModel):
    """A section of the settings."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)

    @classmethod
    def read(cls, document: Mapping[str, Any]) -> Self:
        """Read what a version of terradask, maybe another one, has checked and written: what it
        lacks has its default, what is not known here is left out, and no value is checked again.
        """
        return cls.model_construct(
            **{name: document[name] for name in cls.model_fields if name in document}
        )
