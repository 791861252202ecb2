"""Answers that depend on time, caller or account: found once, locked, and used until a refresh.

``terradask.lock.json`` makes a laptop and a CI job plan the same. Nothing here calls AWS;
terradask's runtime does and fills these models.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    ValidationError,
    model_serializer,
)

from terradask_modules.errors import InvalidInput
from terradask_stacks.files import write_whole
from terradask_stacks.hardware.architecture import Architecture

LOCK_FORMAT = 1
LOCK_NAME = "terradask.lock.json"


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")
    #: Fields that aren't written where they are empty: most settings have no GPUs.
    _unless_empty: ClassVar[frozenset[str]] = frozenset()

    @model_serializer(mode="wrap")
    def _without_empty(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written: dict[str, Any] = serialize(self)
        return {
            name: value
            for name, value in written.items()
            if value or name not in self._unless_empty
        }


class EndpointService(_Model):
    """AWS's side of an interface endpoint."""

    name: str = Field(description="Such as com.amazonaws.us-east-1.logs; in China others.")
    zones: list[str] = Field(description="The zones of the region that have it.")


class LimitsLock(_Model):
    """Limits, and who has set them: the caller of the first plan with them."""

    limits: dict[str, Any] = Field(description="Section [limits], without what limits nothing.")
    set_by: str = Field(description="ARN of that caller.")
    set_at: str = Field(description="Time of that plan, UTC.")


class NetworkLock(_Model):
    """What the network's stack was made from, in addition to its settings."""

    _unless_empty = frozenset(
        {"gpu_image_ids", "gpu_image_sizes_gib", "limits", "task_policies", "vpc_blocks"}
    )

    account: str = Field(pattern=r"^[0-9]{12}$", description="The AWS account's number.")
    partition: str = Field(
        default="aws", description="aws, aws-cn or aws-us-gov: the first part of every ARN."
    )
    zones: dict[str, int] = Field(
        description="Zone name -> slot in the network's block. A zone keeps its slot."
    )
    image_ids: dict[Architecture, str] = Field(description="Architecture -> image id.")
    image_sizes_gib: dict[Architecture, int] = Field(
        default={}, description="Architecture -> size of the image's root volume, in GiB."
    )
    gpu_image_ids: dict[Architecture, str] = Field(
        default={}, description="Architecture -> image of hosts with GPUs, if it is another one."
    )
    gpu_image_sizes_gib: dict[Architecture, int] = Field(
        default={}, description="Architecture -> size of that image's root volume, in GiB."
    )
    endpoint_services: dict[str, EndpointService] = Field(
        default={}, description="Service of network.interface_endpoints -> AWS's side of it."
    )
    vpc_blocks: list[str] = Field(
        default=[],
        description="The address blocks of a given VPC, where a rule of network.egress is for it.",
    )
    task_policies: dict[str, list[dict[str, Any]]] = Field(
        default={},
        description="Managed policy of network.task_rights -> what it allows, as each plan reads.",
    )
    limits: LimitsLock | None = Field(
        default=None, description="The limits of section [limits], if it limits anything."
    )

    @property
    def limits_document(self) -> dict[str, Any]:
        """The limits as clusters and hosts read them; empty without any."""
        found = self.limits
        if found is None:
            return {}
        return {**found.limits, "set_by": found.set_by, "set_at": found.set_at}


class ClusterLock(_Model):
    """What a cluster's stack was made from, in addition to its settings."""

    _unless_empty = frozenset(
        {
            "gpus",
            "gpu_image",
            "capacity_blocks",
            "container",
            "network_disks_mibps",
            "task_policies",
        }
    )

    account: str = Field(pattern=r"^[0-9]{12}$", description="The AWS account's number.")
    partition: str = Field(
        default="aws", description="aws, aws-cn or aws-us-gov: the first part of every ARN."
    )
    zone: str = Field(description="The zone of the cluster.")
    zone_is_default: bool = Field(
        default=False, description="The zone was not chosen: it was the network's first."
    )
    worker_zones: dict[str, list[str]] = Field(
        default={},
        description=(
            "Group of workers -> its zones, if workers may be in several. Empty: all are "
            "in the cluster's zone."
        ),
    )
    architecture: Architecture = Field(
        default="x86_64", description="Processor architecture of all hosts."
    )
    scheduler_instance_types: list[str] = Field(
        min_length=1, description="Types of the scheduler's group, in order."
    )
    worker_instance_types: list[str] = Field(
        min_length=1, description="Types of the workers' group, in order."
    )
    group_instance_types: dict[str, list[str]] = Field(
        default={}, description="Named group of workers -> its types, in order."
    )
    gpus: dict[str, int] = Field(
        default={}, description="Instance type -> its GPUs, of those that have some."
    )
    gpu_image: bool = Field(
        default=False,
        description="Whether hosts with GPUs have an image with drivers, from the network.",
    )
    capacity_blocks: list[str] = Field(
        default=[], description="Groups of workers whose capacity reservation is a capacity block."
    )
    container: str | None = Field(
        default=None, description="The container image that hosts run, with its digest."
    )
    asked: dict[str, dict[str, Any]] | None = Field(
        default=None,
        description=(
            "Group -> the hardware that was requested for it. None: not known, so that a plan "
            "resolves it anew."
        ),
    )
    reasons: dict[str, str] = Field(
        default={},
        description="Group -> the reason for its types, in a line; zone -> the reason for it.",
    )
    network_disks_gib: dict[str, int | None] | None = Field(
        default=None,
        description=(
            "Scheduler, or group of workers -> size of the disk that the network's launch template "
            "for it has. A group's null: the network's usual disk. None: the cluster has launch "
            "templates of its own, or no disks that differ."
        ),
    )
    network_disks_mibps: dict[str, int | None] = Field(
        default={}, description="The same for throughput. A group's null: what is free."
    )
    task_policies: list[str] = Field(
        default=[],
        description="Managed policies that the network gives an isolated cluster's tasks.",
    )
    creator: str | None = Field(
        default=None,
        description=(
            "ARN of the IAM principal that a cluster is private to. None: it is not private."
        ),
    )


class LockFile(_Model):
    """The file of locked answers."""

    format: Literal[1] = 1
    network: NetworkLock | None = None
    clusters: dict[str, ClusterLock] = {}

    def with_network(self, network: NetworkLock) -> LockFile:
        """Return a copy with the network's answers."""
        return self.model_copy(update={"network": network})

    def with_cluster(self, name: str, cluster: ClusterLock) -> LockFile:
        """Return a copy with one cluster's answers."""
        return self.model_copy(update={"clusters": {**self.clusters, name: cluster}})


def assign_slots(existing: Mapping[str, int], zones: Iterable[str]) -> dict[str, int]:
    """Return a slot in the network's block for each wanted zone: the one that it was locked to
    before, which never changes, else the lowest that no wanted or earlier zone holds.
    """
    wanted = sorted(set(zones))
    taken = set(existing.values())
    free = (slot for slot in range(len(wanted) + len(taken)) if slot not in taken)
    return {zone: existing[zone] if zone in existing else next(free) for zone in wanted}


def read_lock(path: Path) -> LockFile:
    """Read the locked answers; an absent file has none.

    Raises `InvalidInput` if the file isn't JSON, has another format, or its content isn't that of a
    lock.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return LockFile()
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidInput(
            f"{path} can't be read: {error}", advice="make the file readable"
        ) from error
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(
            f"{path} is not JSON: {error}",
            advice="restore it from version control, or delete it and plan again",
        ) from error
    found = document.get("format") if isinstance(document, dict) else None
    if found != LOCK_FORMAT:
        raise InvalidInput(
            f"{path} has another format",
            given=found,
            allowed=f"format {LOCK_FORMAT}",
            advice="use the version of terradask that wrote it, or delete it and plan again",
        )
    try:
        return LockFile.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if first["type"] == "extra_forbidden":
            raise InvalidInput(
                f"{path} has an answer that this terradask doesn't know: "
                f"{'.'.join(map(str, first['loc']))}",
                given=first["input"],
                advice="use the version of terradask that wrote it, or delete it and plan again",
            ) from error
        raise InvalidInput(
            f"{path} has a wrong answer at {'.'.join(map(str, first['loc']))}: {first['msg']}",
            given=first["input"],
            advice="restore it from version control, or delete it and plan again",
        ) from error


def dump_lock(lock: LockFile) -> str:
    """Return the file's text: the same answers always give the same bytes."""
    return json.dumps(lock.model_dump(mode="json"), indent=2, sort_keys=True) + "\n"


def write_lock(path: Path, lock: LockFile) -> None:
    """Write the locked answers atomically; an unchanged file keeps its time."""
    text = dump_lock(lock)
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, text, mode=0o644)
