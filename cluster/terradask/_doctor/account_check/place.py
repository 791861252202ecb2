"""The throw-away workspace of a check: its folder, the record in it by which a later check finds
what a killed one left, and its settings.
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

from platformdirs import user_state_path

from terradask._common.clock import utc_text
from terradask._common.processes import process_started
from terradask_stacks.files import write_whole
from terradask_stacks.loading import FILE_NAME, STATE_DIR_VARIABLE
from terradask_stacks.settings import Settings

NAME = re.compile(r"smoke-[0-9a-f]{4}")
#: On every resource: when the check is over at the latest, in UTC.
UNTIL_TAG = "terradask-live-check-until"

_RECORD = "record.json"


@dataclass(frozen=True)
class SmokeWorkspace:
    """A throw-away workspace. Its folder has its settings and its record: the other fields."""

    folder: Path
    name: str
    account: str
    region: str
    #: When its check is over at the latest, in UTC.
    until: str
    #: The check's process.
    pid: int
    #: When that process was started, by which another one of its number is told apart.
    process_started: str | None

    @classmethod
    def begin(
        cls,
        base: Path,
        *,
        account: str,
        region: str,
        limit: datetime.timedelta,
        name: str | None = None,
    ) -> SmokeWorkspace:
        """Make a folder with a record, before anything is made in the account."""
        name = name or f"smoke-{secrets.token_hex(2)}"
        until = utc_text(datetime.datetime.now(datetime.UTC) + limit)
        return cls(base / name, name, account, region, until, 0, None).taken_over()

    @classmethod
    def left(cls, base: Path) -> list[SmokeWorkspace]:
        """Return those that a check has begun and not removed, and whose process is gone."""
        found = (cls._read(path) for path in sorted(base.glob(f"*/{_RECORD}")))
        return [one for one in found if one is not None and not one.runs]

    @classmethod
    def _read(cls, path: Path) -> SmokeWorkspace | None:
        try:
            found = cls(folder=path.parent, **json.loads(path.read_bytes()))
        except (OSError, ValueError, TypeError):
            return None
        return found if NAME.fullmatch(found.name) else None

    @property
    def runs(self) -> bool:
        """Whether the check's process is alive, on this machine."""
        return self.process_started is not None and (
            process_started(self.pid) == self.process_started
        )

    def taken_over(self) -> SmokeWorkspace:
        """Make this process the one that removes it, in the record too."""
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
        """Whether anything can have been made."""
        return (self.folder / FILE_NAME).is_file()

    def forget(self) -> None:
        """Remove the folder: nothing is left of the workspace."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have this process use the workspace's own settings alone, inside a block."""
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
    return user_state_path("terradask") / "live-checks"


@contextlib.contextmanager
def environment(changes: Mapping[str, str | None]) -> Iterator[None]:
    """Have this process use other environment variables inside a block; None removes one."""
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


# ---- its settings: as cheap as can be, with what the user's organisation prescribes --------------


CLUSTER = "check"
#: The group whose worker is on spot.
SPOT_GROUP = "cheap"
#: Most workers at once: two on demand, one on spot.
MOST_WORKERS = 3
#: Of an image with a larger snapshot, as large as that.
DISK_GIB = 12
#: What a worker's instance needs: enough for Dask and its installation.
CPU, MEMORY = 2, ["4 GiB", "8 GiB"]
#: The same where types are named: AWS's sizes are a little less than they are called.
LEAST_MEMORY_MIB = 3_600
#: How long the steps that cost may take; then everything is removed.
LIMIT_SECONDS = 1500
#: A cluster of the check ends by then, by AWS's own schedule.
LIFETIME_SECONDS = 1800

#: What an organisation may prescribe for every network.
_PRESCRIBED = (
    "permissions_boundary",
    "role_path",
    "role_name_prefix",
    "kms_key_arn",
    "image",
    "image_owners",
)


def cluster_settings(user: Settings, *, types: list[str]) -> dict[str, Any]:
    """Return the settings of the check's cluster: of the cheapest types, or of given ones."""
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


def smoke_settings(
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
    """Return the throw-away workspace's sections; an empty `zone`, `types` or `until` is one that
    isn't known yet.

    Without a NAT gateway and endpoints, a network costs nothing by the hour.
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
        # Of its own, so that nothing stays.
        "state": {
            **user.state.model_dump(mode="json", include={"kms_key_arn"}, exclude_none=True),
            "bucket": f"terradask-state-{name}-{account}",
        },
        "network": {
            **given,
            # A path of the user's settings counts from where these lie.
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
