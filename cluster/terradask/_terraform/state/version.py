"""Which version a stack's state has, without starting Terraform."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask._aws.s3 import ObjectStore
from terradask._terraform.state.model import StateVersion, read_state_file, state_file, state_of
from terradask._terraform.terraform import CONFIGURATION

if TYPE_CHECKING:
    from terradask._aws.session import Aws


def state_version(folder: Path, aws: Aws) -> StateVersion:
    """Return the version of the state of the stack in a folder.

    Permission needed, where the state lies in a bucket: ``s3:GetObject`` on it, as Terraform itself
    needs.
    """
    configuration = json.loads((folder / CONFIGURATION).read_text(encoding="utf-8"))
    local = state_file(folder, configuration)
    document = (
        read_state_file(local)
        if local is not None
        else _in_bucket(configuration["terraform"]["backend"]["s3"], aws)
    )
    return (
        StateVersion()
        if document is None
        else StateVersion(int(document["serial"]), str(document["lineage"]))
    )


def _in_bucket(backend: dict[str, Any], aws: Aws) -> Any:
    found = ObjectStore(aws, backend["bucket"]).read(backend["key"])
    return (
        None
        if found is None
        else state_of(found.content, f"s3://{backend['bucket']}/{backend['key']}")
    )
