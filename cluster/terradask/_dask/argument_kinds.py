"""What a field of ``ClusterArguments`` is: of the stack, of the run, or not supported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

from terradask.errors import UnsupportedOption

Kind = Literal["structure", "run"]


#: Metadata of a field that is a setting of the cluster's stack.
STRUCTURE = {"kind": "structure"}
#: Metadata of a setting of a run or of a client, which doesn't change a deployed cluster.
RUN = {"kind": "run"}


def run_setting(setting: str) -> Mapping[str, Any]:
    """Return the metadata of a run's setting whose name differs from the argument's."""
    return {**RUN, "setting": setting}


def unsupported(instead: str, *nothing: Any) -> Mapping[str, Any]:
    """Return the metadata of an unsupported field: advice, and values that don't ask for it."""
    return {"kind": "unsupported", "instead": instead, "nothing": (None, *nothing)}


@dataclass(frozen=True)
class KindedArguments:
    """Arguments of which each field's metadata names its kind."""

    def refuse_unsupported(self) -> None:
        """Check that no unsupported argument is given. Raises `UnsupportedOption`."""
        for each in fields(self):
            if each.metadata.get("kind") == "unsupported":
                value = getattr(self, each.name)
                if not any(
                    value is nothing or value == nothing for nothing in each.metadata["nothing"]
                ):
                    raise UnsupportedOption(each.name, given=value, advice=each.metadata["instead"])

    def given(self, kind: Kind) -> dict[str, Any]:
        """Return the given arguments of a kind, by their setting's name."""
        found = (
            (each, getattr(self, each.name))
            for each in fields(self)
            if each.metadata.get("kind") == kind
        )
        return {
            each.metadata.get("setting", each.name): value
            for each, value in found
            if value is not None
        }
