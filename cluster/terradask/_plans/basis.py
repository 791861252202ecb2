"""The basis of a saved plan: everything that must be unchanged when the plan is applied."""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from terradask._common.checksum import sha256_of_file
from terradask._common.clock import utc_text
from terradask._common.git import ask_git
from terradask._common.json_text import parse_json
from terradask._terraform.folder_contents import CONFIGURATION, IMPORTS, LOCK_FILE
from terradask._terraform.program import TERRAFORM
from terradask._terraform.state.model import StateVersion
from terradask.errors import PlanChanged
from terradask_modules.where import Where
from terradask_stacks.version import terradask_version

#: terradask's own limit: older plans must be reviewed again.
PLAN_LIFETIME = datetime.timedelta(hours=24)

#: Names in a plan's file.
_CONFIGURATION = "tfconfig/"
_MODULES = "tfconfig/modules.json"

_PROVIDER = re.compile(r'provider "[^"]*/hashicorp/aws" \{\s*version\s*=\s*"([^"]+)"')


@dataclass(frozen=True)
class PlanBasis:
    """The configuration, state and versions that a plan was made from."""

    #: ``network``, or the cluster's name.
    stack: str
    destroy: bool
    workspace: str
    account: str
    region: str
    terradask_version: str
    terraform_version: str
    provider_version: str
    configuration_sha256: str
    #: `serial`, `lineage`: the version of the plan's starting state.
    serial: int
    lineage: str
    #: Creation time, UTC, in ISO 8601.
    planned_at: str
    #: ``Terraform`` or ``OpenTofu``.
    program: str = TERRAFORM.name

    @property
    def expires_at(self) -> str:
        """Expiry time, UTC, in ISO 8601."""
        return utc_text(datetime.datetime.fromisoformat(self.planned_at) + PLAN_LIFETIME)

    def check_origin(
        self, where: Where, *, terraform_version: str, program: str = TERRAFORM.name
    ) -> None:
        """Refuse a plan of another workspace, program or version. Raises `PlanChanged`."""
        found = {
            "workspace": (self.workspace, where.workspace),
            "account": (self.account, where.account),
            "region": (self.region, where.region),
            "terradask version": (self.terradask_version, terradask_version()),
            "program": (self.program, program),
            f"{program} version": (self.terraform_version, terraform_version),
        }
        for what, (planned, here) in found.items():
            self._same(what, planned, here)

    def check_expiry(self, now: datetime.datetime | None = None) -> None:
        """Refuse an expired plan. Raises `PlanChanged`."""
        now = now or datetime.datetime.now(datetime.UTC)
        if now > datetime.datetime.fromisoformat(self.expires_at):
            hours = PLAN_LIFETIME // datetime.timedelta(hours=1)
            raise PlanChanged(
                f"the plan of {self.stack} has expired: a plan can be applied for {hours} hours",
                what="expiry",
                given=f"planned at {self.planned_at}",
            )

    def check_configuration(self, folder: Path) -> None:
        """Refuse if the stack's configuration has changed. Raises `PlanChanged`."""
        self._same("provider version", self.provider_version, provider_version(folder))
        if configuration_sha256(folder) != self.configuration_sha256:
            raise PlanChanged(
                f"the configuration of {self.stack} has changed since the plan was made",
                what="configuration",
                given=str(folder),
            )

    def check_state(self, now: StateVersion) -> None:
        """Refuse if the stack's state has changed. Raises `PlanChanged`."""
        self._same("state lineage", self.lineage or "no state", now.lineage or "no state")
        self._same("state serial", str(self.serial), str(now.serial))

    def _same(self, what: str, planned: str, here: str) -> None:
        if planned != here:
            raise PlanChanged(
                f"the plan of {self.stack} was made with another {what}",
                what=what,
                given=f"planned {planned}, now {here}",
            )


@dataclass(frozen=True)
class PlanArchive:
    """The contents of Terraform's plan file."""

    terraform_version: str
    #: The version of the starting state.
    state: StateVersion
    #: The starting state.
    document: Mapping[str, Any] = field(repr=False)
    #: The configuration: file name -> content.
    configuration: Mapping[str, bytes] = field(repr=False)
    #: The changes, in Terraform's binary format.
    changes: bytes = field(repr=False)

    @classmethod
    def read(cls, path: Path) -> PlanArchive:
        """Read a plan's file. Raises `PlanChanged`."""
        try:
            with zipfile.ZipFile(path) as archive:
                document = parse_json(archive.read("tfstate"))
                configuration = {
                    name.removeprefix(_CONFIGURATION): archive.read(name)
                    for name in archive.namelist()
                    if name.startswith(_CONFIGURATION) and name != _MODULES
                }
                changes = archive.read("tfplan")
            return cls(
                str(document["terraform_version"]),
                StateVersion(int(document["serial"]), str(document["lineage"])),
                document,
                configuration,
                changes,
            )
        except (
            OSError,
            zipfile.BadZipFile,
            zlib.error,
            KeyError,
            ValueError,
            TypeError,
            EOFError,
        ) as error:
            raise _unreadable(path, error) from error


def check_planned_configuration(path: Path, folder: Path) -> None:
    """Refuse a plan file whose configuration or backend differs from the stack's: an apply uses
    those of the file. Raises `PlanChanged`.
    """
    archive = PlanArchive.read(path)
    planned = dict(archive.configuration)
    imports = planned.pop(f"m-/{IMPORTS}", b"{}")
    configuration = (folder / CONFIGURATION).read_bytes()
    try:
        only_imports = set(parse_json(imports)) <= {"import"}
    except (ValueError, TypeError):
        only_imports = False
    if planned != {f"m-/{CONFIGURATION}": configuration} or not only_imports:
        raise PlanChanged(
            "the plan file's configuration differs from the stack's",
            what="configuration",
            given=str(path),
        )
    try:
        backend = planned_backend(archive.changes)
    except ValueError as error:
        raise _unreadable(path, error) from error
    if backend != parse_json(configuration)["terraform"]["backend"]:
        raise PlanChanged(
            "the plan file's backend differs from the stack's: the state would be stored elsewhere",
            what="backend",
            given=f"{path}: {', '.join(backend)}",
        )


def _unreadable(path: Path, error: Exception) -> PlanChanged:
    return PlanChanged(
        "the plan's file can't be read: it is incomplete, or not a plan",
        what="file",
        given=f"{path}: {error}",
    )


def provider_version(folder: Path) -> str:
    """Return the AWS provider's version in a stack's lock file; empty if there is none."""
    try:
        found = _PROVIDER.search((folder / LOCK_FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    return found[1] if found else ""


def configuration_sha256(folder: Path) -> str:
    """Return a checksum of a stack's configuration and provider lock; empty without one."""
    try:
        return "-".join(sha256_of_file(folder / name)[:32] for name in (CONFIGURATION, LOCK_FILE))
    except FileNotFoundError:
        return ""


# ---- the backend in a plan's file ----------------------------------------------------------------


#: Field numbers of a plan. A state store is another kind of backend, which no stack has.
_BACKEND, _STATE_STORE = 13, 29
_PLACES = frozenset({_BACKEND, _STATE_STORE})
#: Field numbers of a backend.
_TYPE, _CONFIG, _WORKSPACE = 1, 2, 3
#: Field numbers of a value.
_MSGPACK = 1


def planned_backend(changes: bytes) -> dict[str, Any]:
    """Return a plan's backend as a configuration writes it: its type, and its values that are set.

    Raises `ValueError` if the plan can't be read, hasn't exactly one backend, or has another
    Terraform workspace.
    """
    import msgpack

    places = [each for each in _fields(changes) if each[0] in _PLACES]
    if [number for number, _ in places] != [_BACKEND]:
        raise ValueError("it doesn't have exactly one backend")
    fields = list(_fields(places[0][1]))
    backend = dict(fields)
    if len(fields) != len(backend) or backend.get(_WORKSPACE) != b"default":
        raise ValueError("its backend belongs to another workspace")
    try:
        values = msgpack.unpackb(dict(_fields(backend[_CONFIG]))[_MSGPACK])
        known = {name: value for name, value in values.items() if value is not None}
        return {backend[_TYPE].decode(): known}
    except (KeyError, TypeError, AttributeError, msgpack.UnpackException) as error:
        raise ValueError(f"its backend can't be read: {error!r}") from error


def _fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield the number and content of each length-delimited field of a message."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        match tag & 7:
            case 0:  # a varint
                _, at = _varint(message, at)
            case 1:
                at += 8
            case 5:
                at += 4
            case 2:  # bytes, a string or another message
                size, at = _varint(message, at)
                if at + size > len(message):
                    raise ValueError("a field is longer than its message")
                yield tag >> 3, message[at : at + size]
                at += size
            case kind:
                raise ValueError(f"a field has unknown wire type {kind}")


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a number and the offset behind it."""
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError("a number has no end")
        value |= (message[at] & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if message[at - 1] < 0x80:
            return value, at


_GIT_SECONDS = 5
_CHANGED = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty")


def commit_of(folder: Path) -> str | None:
    """Return the commit, with ``-dirty`` for changed tracked files; None without git."""
    commit = ask_git(folder, "rev-parse", "--verify", "HEAD", seconds=_GIT_SECONDS)
    changed = ask_git(folder, *_CHANGED, seconds=_GIT_SECONDS) if commit else None
    if not commit or changed is None:
        return None
    return f"{commit.strip()}-dirty" if changed.strip() else commit.strip()
