"""What a field of ``ClusterArguments`` is: a setting of the stack, a setting of the run, or not supported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

Kind = Literal["structure", "run"]


#: Metadata of a field that is a setting of the cluster's stack.
STRUCTURE = {"kind": "structure"}
#: Metadata of a field that is a setting of a run or of a client, and doesn't change a deployed cluster.
RUN = {"kind": "run"}


def run_setting(setting: str) -> Mapping[str, Any]:
    """Return the metadata of a run's setting whose name differs from the argument's."""
    return {**RUN, "setting": setting}


def unsupported(instead: str, *nothing: Any) -> Mapping[str, Any]:
    """Return the metadata of an unsupported field: the advice, and the values besides None that don't ask for it."""
    return {"kind": "unsupported", "instead": instead, "nothing": (None, *nothing)}


# Its docstring is also that of `Cluster`.
