"""The temporary workspace of a check: its folder, its settings, and the record by which a later
check finds a killed one's resources.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from terradask._common.clock import utc_text
from terradask._common.processes import process_started
from terradask_modules.names import resource_name
from terradask_stacks.files import write_whole
from terradask_stacks.loading import FILE_NAME, STATE_DIR_VARIABLE
from terradask_stacks.settings import Settings
from terradask_stacks.user_folders import state_folder

NAME = re.compile(r"smoke-[0-9a-f]{4}")
#: Tag on every resource: latest end of the check, in UTC.
UNTIL_TAG = "terradask-live-check-until"

_RECORD = "record.json"


def new_name() -> str:
    """Draw the name of a check's workspace."""
    return f"smoke-{secrets.token_hex(2)}"


def role_name(prefix: str, workspace: str) -> str:
    """Return the name of the role that a check makes for its cluster's steps."""
    return f"{prefix}{resource_name(workspace, 'check')}"


@dataclass(frozen=True)
class CheckWorkspace:
    """A temporary workspace. Its folder contains its settings and its record: the other fields."""

    folder: Path
    name: str
    account: str
    region: str
    #: Latest end of the check, in UTC.
    until: str
    #: The check's process.
    pid: int
    #: Start of that process, which distinguishes a reused process id.
    process_started: str | None

    @classmethod
    def begin(
        cls,
        base: Path,
        *,
        account: str,
        region: str,
        limit: datetime.timedelta,
        name: str,
    ) -> CheckWorkspace:
        """Create a folder with a record, before anything is created in the account."""
        until = utc_text(datetime.datetime.now(datetime.UTC) + limit)
        return cls(base / name, name, account, region, until, 0, None).taken_over()

    @classmethod
    def unfinished(cls, base: Path) -> list[CheckWorkspace]:
        """Return the recorded workspaces whose process has ended."""
        found = (cls._read(path) for path in sorted(base.glob(f"*/{_RECORD}")))
        return [one for one in found if one is not None and not one.runs]

    @classmethod
    def _read(cls, path: Path) -> CheckWorkspace | None:
        try:
            found = cls(folder=path.parent, **json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if NAME.fullmatch(found.name) else None

    @property
    def runs(self) -> bool:
        """Whether the check's process is alive on this machine."""
        return self.process_started is not None and (
            process_started(self.pid) == self.process_started
        )

    def taken_over(self) -> CheckWorkspace:
        """Record this process as the one that removes it."""
        pid = os.getpid()
        taken = replace(self, pid=pid, process_started=process_started(pid))
        record = {key: value for key, value in asdict(taken).items() if key != "folder"}
        self.folder.mkdir(parents=True, exist_ok=True)
        write_whole(self.folder / _RECORD, json.dumps(record), sync=True)
        return taken

    def write_settings(self, settings: Mapping[str, Any]) -> None:
        """Write ``terradask.toml``."""
        import tomlkit

        write_whole(self.folder / FILE_NAME, tomlkit.dumps(settings))

    @property
    def has_settings(self) -> bool:
        """Whether anything can have been created."""
        return (self.folder / FILE_NAME).is_file()

    def forget(self) -> None:
        """Remove the folder, once the workspace has no resources."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Make this process use only the workspace's own settings, inside a block."""
        import dask.config

        others = {name: None for name in os.environ if re.match(r"TERRADASK_\w+__", name)}
        state = {STATE_DIR_VARIABLE: str(self.folder / ".terradask")}
        with environment({**others, **state}), dask.config.set({"terradask": {}}):
            yield


def base_folder() -> Path:
    """Return the folder of the records: the user's, or that of an embedded AWS."""
    given = os.environ.get(STATE_DIR_VARIABLE)
    if given:
        return Path(given).expanduser().absolute() / "live-checks"
    return state_folder() / "live-checks"


@contextlib.contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Change environment variables inside a block; None removes one."""
    before = {name: os.environ.get(name) for name in changes}
    _apply(changes)
    try:
        yield
    finally:
        _apply(before)


def _apply(changes: Mapping[str, str | None]) -> None:
    for name, value in changes.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value


# ---- its settings: the cheapest ones, with those that the user's organisation requires -----------


CLUSTER = "check"
#: The group with a Spot worker.
SPOT_GROUP = "cheap"
#: The largest number of workers: two on demand, one on Spot.
MOST_WORKERS = 3
#: Disk size; larger for an image with a larger snapshot.
DISK_GIB = 12
#: A worker's instance: enough for Dask and its installation.
CPU, MEMORY = 2, ["4 GiB", "8 GiB"]
#: The limit for named types: AWS's sizes are slightly smaller than their names.
LEAST_MEMORY_MIB = 3_600
#: Time limit of the costly steps; then everything is removed.
LIMIT_SECONDS = 1500
#: A schedule ends a cluster of the check by then. AWS (asg-schedule)
LIFETIME_SECONDS = 1800

#: Settings that an organisation may require for every network.
_PRESCRIBED = (
    "permissions_boundary",
    "role_path",
    "role_name_prefix",
    "kms_key_arn",
    "image",
    "image_owners",
)


def cluster_settings(user: Settings, *, types: list[str]) -> dict[str, Any]:
    """Return the settings of the check's cluster, with the cheapest or given types."""
    hardware: dict[str, Any] = (
        {"worker_vm_types": types, "scheduler_vm_types": types}
        if types
        else {"worker_cpu": CPU, "worker_memory": MEMORY}
    )
    group = {"vm_types": types} if types else {"cpu": CPU, "memory": MEMORY}
    return {
        **hardware,
        "connect": "ssm" if user.cluster.connect == "ssm" else "public",
        "n_workers": 1,
        "max_workers": MOST_WORKERS - 1,
        "worker_groups": {
            SPOT_GROUP: {**group, "n_workers": 1, "max_workers": 1, "spot_policy": "spot"}
        },
        "scheduler_options": dict(user.cluster.scheduler_options),
        "idle_timeout_seconds": LIFETIME_SECONDS,
        "max_lifetime_seconds": LIFETIME_SECONDS,
    }


def check_settings(
    user: Settings,
    name: str,
    *,
    account: str,
    until: str,
    zone: str,
    types: list[str],
    disk_gib: int = DISK_GIB,
    own_cidr: str | None = None,
    host_packages: Path | None = None,
) -> dict[str, Any]:
    """Return the temporary workspace's sections; an empty `zone`, `types` or `until` is not known
    yet.

    Without a NAT gateway and endpoints, a network has no hourly cost.
    """
    given = user.network.model_dump(mode="json", include=set(_PRESCRIBED), exclude_defaults=True)
    ports = [{"ports": ["8786-8787"], "cidr": own_cidr, "description": "live check"}]
    return {
        "workspace": {
            **user.workspace.model_dump(
                mode="json", include={"region", "own_address_url"}, exclude_none=True
            ),
            "name": name,
            "tags": {**user.workspace.tags, **({UNTIL_TAG: until} if until else {})},
        },
        # The check's own, so that nothing is left.
        "state": {
            **user.state.model_dump(mode="json", include={"kms_key_arn"}, exclude_none=True),
            "bucket": f"terradask-state-{name}-{account}",
        },
        "network": {
            **given,
            # A path in the user's settings is relative to their folder.
            **({} if host_packages is None else {"host_packages": str(host_packages)}),
            "cidr": user.network.cidr,
            **({"zones": [zone]} if zone else {}),
            "nat": "none",
            "public_workers": True,
            "flow_logs": True,
            "session_manager": True,
            "architectures": ["x86_64"],
            "log_retention_days": 1,
            "worker_disk_size_gib": disk_gib,
            "scheduler_disk_size_gib": disk_gib,
            "ingress": ports if own_cidr else [],
        },
        "clusters": {CLUSTER: cluster_settings(user, types=types)},
    }
