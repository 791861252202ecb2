"""File systems that hosts mount for tasks: ``[[network.mounts]]``."""

from __future__ import annotations

import re
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from terradask_modules.egress import Egress
from terradask_modules.mounts import KINDS, Mount, mount_rights, variable, with_mounted
from terradask_modules.task_rights import DataBucket, TaskRight
from terradask_modules.where import Where
from terradask_stacks.settings.base import Section
from terradask_stacks.settings.egress import EgressSettings
from terradask_stacks.settings.task_rights import DataBucketSettings, TaskSettings
from terradask_stacks.validators.refusal import matching, refuse
from terradask_stacks.validators.resources import check_bucket, check_key_arn

#: Folders of the system, of the host program, and those that its unit hides or replaces.
SYSTEM_FOLDERS = (
    *("/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib64", "/opt/terradask", "/proc"),
    *("/root", "/run", "/sbin", "/sys", "/tmp", "/usr", "/var"),  # noqa: S108  (refused)
)

check_file_system = matching(
    r"fs-[0-9a-f]{8,40}", "the id of a file system", "fs- and 8 to 40 hexadecimal digits"
)
check_access_point = matching(
    r"fsap-[0-9a-f]{8,40}", "the id of an access point", "fsap- and 8 to 40 hexadecimal digits"
)
#: AWS (documented): A mount name of FSx for Lustre has 1 to 8 letters, digits, _ and -.
#: https://docs.aws.amazon.com/fsx/latest/APIReference/API_LustreFileSystemConfiguration.html
check_mount_name = matching(
    r"[A-Za-z0-9_-]{1,8}",
    "a mount name of FSx for Lustre",
    "1 to 8 letters, digits, _ and -, as `aws fsx describe-file-systems` shows it",
)


def check_mount_path(path: str) -> str:
    """Return a path at which hosts can mount."""
    plain = re.fullmatch(r"(/[A-Za-z0-9_.-]+)+", path) and not {".", ".."} & {*path.split("/")}
    if not plain:
        raise refuse(
            f"{path!r} is not a path of hosts",
            allowed="an absolute path of letters, digits, _, . and -, such as /data/lake",
        )
    taken = [
        folder for folder in SYSTEM_FOLDERS if is_below(path, folder) or is_below(folder, path)
    ]
    if taken:
        raise refuse(
            f"{path} is not free on hosts: {taken[0]} is the system's or the host program's",
            allowed="a folder of your own, such as /data/lake or /mnt/lake",
        )
    return path


def is_below(path: str, folder: str) -> bool:
    """Return whether a path is a folder, or in it."""
    return PurePosixPath(path).is_relative_to(folder)


class MountSettings(Section):
    """A file system that every host of the workspace mounts before Dask starts: exactly one of
    ``bucket``, ``efs``, ``s3_files`` and ``fsx_lustre``. terradask makes none of them.
    """

    path: Annotated[str, AfterValidator(check_mount_path)] = Field(
        description="Where hosts mount it, such as /data/lake."
    )
    access: Literal["read", "write"] = Field(
        default="read", description="Whether tasks may write to it too."
    )
    bucket: Annotated[str, AfterValidator(check_bucket)] | None = Field(
        default=None, description="A bucket, by Mountpoint for Amazon S3, with a cache on the disk."
    )
    prefix: str | None = Field(
        default=None,
        pattern=r"^[A-Za-z0-9!_.()=-]+(/[A-Za-z0-9!_.()=-]+)*$",
        description="The part of the bucket to mount, without a slash at its end.",
    )
    kms_key_arn: Annotated[str, AfterValidator(check_key_arn)] | None = Field(
        default=None, description="KMS key of the bucket's objects; hosts get the right to use it."
    )
    efs: Annotated[str, AfterValidator(check_file_system)] | None = Field(
        default=None, description="File system of Amazon EFS, over TLS, as the hosts' role."
    )
    s3_files: Annotated[str, AfterValidator(check_file_system)] | None = Field(
        default=None, description="File system of Amazon S3 Files, where the region has it."
    )
    access_point: Annotated[str, AfterValidator(check_access_point)] | None = Field(
        default=None, description="Access point of efs or s3_files, which can set user and folder."
    )
    fsx_lustre: Annotated[str, AfterValidator(check_file_system)] | None = Field(
        default=None, description="File system of Amazon FSx for Lustre. Needs mount_name."
    )
    mount_name: Annotated[str, AfterValidator(check_mount_name)] | None = Field(
        default=None, description="The mount name of fsx_lustre."
    )

    @model_validator(mode="after")
    def _one_file_system(self) -> MountSettings:
        kinds = [kind for kind in KINDS if getattr(self, kind) is not None]
        where = f"the mount at {self.path}"
        if len(kinds) != 1:
            raise refuse(
                f"{where} names {' and '.join(kinds) or 'no file system'}",
                allowed=f"exactly one of {', '.join(KINDS)}",
            )
        for kind, names in _ONLY_WITH.items():
            wrong = [name for name in names if getattr(self, name) is not None]
            if wrong and kinds[0] not in kind:
                raise refuse(
                    f"{where} sets {wrong[0]} with {kinds[0]}",
                    allowed=f"{wrong[0]} with {' or '.join(kind)}",
                )
        if self.bucket is not None:
            # Refuses a workspace's own bucket.
            DataBucketSettings(name=self.bucket, prefix=self.prefix or "", access=self.access)
        if self.fsx_lustre is not None and self.mount_name is None:
            raise refuse(
                f"{where} lacks mount_name",
                allowed="the mount name of the file system, such as fsx or q5pdvb4v",
                advice="aws fsx describe-file-systems shows it as LustreConfiguration.MountName",
            )
        return self

    @property
    def mount(self) -> Mount:
        """It as a part of user data, policies and rules."""
        given = {name: getattr(self, name) for name in type(self).model_fields}
        return Mount(**{name: value for name, value in given.items() if value is not None})


#: Kinds -> settings that only they have.
_ONLY_WITH = {
    ("bucket",): ("prefix", "kms_key_arn"),
    ("efs", "s3_files"): ("access_point",),
    ("fsx_lustre",): ("mount_name",),
}


def _apart(mounts: list[MountSettings]) -> list[MountSettings]:
    """Return mounts of which none is in another one, and whose variables differ."""
    for number, one in enumerate(mounts):
        for other in mounts[:number]:
            if is_below(one.path, other.path) or is_below(other.path, one.path):
                raise refuse(
                    f"{one.path} and {other.path} are the same or one in the other",
                    allowed="paths beside each other, such as /data/lake and /data/models",
                )
            if variable(one.path) == variable(other.path):
                raise refuse(
                    f"{one.path} and {other.path} have the same variable, {variable(one.path)}",
                    allowed="paths that differ in more than punctuation and case",
                )
    return mounts


class NetworkMountSettings(EgressSettings, TaskSettings):
    """A network's settings for file systems, which add to what hosts reach and tasks may do."""

    mounts: Annotated[list[MountSettings], AfterValidator(_apart)] = Field(
        default=[],
        max_length=8,
        description="File systems that hosts mount before Dask starts, with the ports and rights "
        "that they need.",
        examples=[[{"path": "/data/lake", "bucket": "lake", "prefix": "raw"}]],
    )

    @property
    def mounted(self) -> tuple[Mount, ...]:
        """The mounts, by path."""
        return tuple(sorted((one.mount for one in self.mounts), key=lambda one: one.path))

    @property
    def all_egress(self) -> tuple[Egress, ...]:
        """The rules of the settings, and those that mounts need."""
        return (*super().all_egress, *(rule for mount in self.mounted for rule in mount.egress))

    @property
    def data(self) -> tuple[DataBucket, ...]:
        """Everything in S3 that tasks may use, mounted or not."""
        return with_mounted(super().data, self.mounted)

    def rights_in(self, where: Where) -> tuple[TaskRight, ...]:
        """Return all further rights of tasks, those to mount file systems included."""
        return (*self.rights, *mount_rights(self.mounted, where))
