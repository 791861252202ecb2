"""File systems that hosts mount: what each needs of the network and of the hosts' role. Pure.

AWS (documented): Mountpoint for S3 needs s3:ListBucket and GetObject, and to write PutObject,
DeleteObject and AbortMultipartUpload.
https://github.com/awslabs/mountpoint-s3/blob/main/doc/CONFIGURATION.md

AWS (documented): EFS and S3 Files are mounted by NFS on port 2049, with the ClientMount and
ClientWrite rights of elasticfilesystem and s3files.
https://docs.aws.amazon.com/efs/latest/ug/iam-access-control-nfs-efs.html,
https://docs.aws.amazon.com/efs/latest/ug/network-access.html,
https://docs.aws.amazon.com/AmazonS3/latest/userguide/s3-files-prereq-policies.html,
https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3files.html

AWS (documented): FSx for Lustre needs ports 988 and 1018 to 1023, and no right of IAM.
https://docs.aws.amazon.com/fsx/latest/LustreGuide/limit-access-security-groups.html
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from terradask_modules.egress import VPC, Egress
from terradask_modules.ingress import Ports
from terradask_modules.task_rights import DataBucket, TaskRight
from terradask_modules.where import Where

#: Kinds of file systems, by the setting that names one.
KINDS = ("bucket", "efs", "s3_files", "fsx_lustre")

_NFS: Ports = (2049, 2049)
#: Kind -> ports of its servers; a bucket is reached at S3's own, which hosts always may.
PORTS: dict[str, tuple[Ports, ...]] = {
    "bucket": (),
    "efs": (_NFS,),
    "s3_files": (_NFS,),
    "fsx_lustre": ((988, 988), (1018, 1023)),
}

#: Kind -> the service's name in IAM and ARNs. Lustre asks for no right.
_SERVICES = {"efs": "elasticfilesystem", "s3_files": "s3files"}


@dataclass(frozen=True, kw_only=True)
class Mount:
    """A file system and its path on hosts; exactly one of `KINDS` is set."""

    path: str
    access: Literal["read", "write"] = "read"
    bucket: str | None = None
    prefix: str | None = None
    kms_key_arn: str | None = None
    efs: str | None = None
    s3_files: str | None = None
    #: Of EFS or S3 Files.
    access_point: str | None = None
    fsx_lustre: str | None = None
    #: Of FSx for Lustre.
    mount_name: str | None = None

    @property
    def kind(self) -> str:
        """Which of `KINDS` it is."""
        return next(kind for kind in KINDS if getattr(self, kind) is not None)

    @property
    def source(self) -> str:
        """The bucket's name, or the file system's id."""
        return str(getattr(self, self.kind))

    @property
    def egress(self) -> list[Egress]:
        """Rules that let hosts out to its servers, which are in the network's own blocks."""
        reason = f"mount at {self.path}"[:255]
        return [Egress(destination=VPC, ports=ports, reason=reason) for ports in PORTS[self.kind]]

    @property
    def data(self) -> DataBucket | None:
        """The bucket that tasks read or write by it, or None."""
        if self.bucket is None:
            return None
        path = "/".join(filter(None, (self.bucket, self.prefix)))
        return DataBucket(path=path, access=self.access, kms_key_arn=self.kms_key_arn)

    def right(self, where: Where) -> TaskRight | None:
        """Return the right to mount a file system that asks for one.

        Without ``ClientRootAccess``: tasks aren't root.
        """
        service = _SERVICES.get(self.kind)
        if service is None:
            return None
        actions = ["ClientMount", *(["ClientWrite"] if self.access == "write" else [])]
        file_system, through = f"file-system/{self.source}", {}
        if self.access_point is not None:
            # An access point of S3 Files is named below its file system.
            point = f"access-point/{self.access_point}"
            arn = where.arn(service, point if self.kind == "efs" else f"{file_system}/{point}")
            through = {"StringEquals": {f"{service}:AccessPointArn": arn}}
        return TaskRight(
            reason=f"mount {self.source}",
            actions=tuple(f"{service}:{action}" for action in actions),
            resources=(where.arn(service, file_system),),
            conditions=through,
        )

    @classmethod
    def of_document(cls, document: Mapping[str, Any]) -> Mount:
        """Read a mount of ``host.json``; raises `TypeError` for one that isn't."""
        return cls(**{name: value for name, value in document.items() if name != "variable"})

    def to_document(self) -> dict[str, str]:
        """Return it as ``host.json`` has it: the parts that are set, but the key, which S3 finds,
        and the variable.
        """
        known = {**vars(self), "kms_key_arn": None, "variable": variable(self.path)}
        return {name: value for name, value in known.items() if value is not None}


def mount_rights(mounts: Iterable[Mount], where: Where) -> tuple[TaskRight, ...]:
    """Return the rights of mounts, each once; those of buckets are their data's."""
    rights: list[TaskRight] = []
    for right in (mount.right(where) for mount in mounts):
        if right is not None and right not in rights:
            rights.append(right)
    return tuple(rights)


def with_mounted(data: Iterable[DataBucket], mounts: Iterable[Mount]) -> tuple[DataBucket, ...]:
    """Return all data that tasks use, each once: who may write a path may read it."""
    found = {(one.path, one.access): one for one in data}
    for mounted in (mount.data for mount in mounts):
        if mounted is None or (mounted.path, "write") in found:
            continue
        found.setdefault((mounted.path, mounted.access), mounted)
    return tuple(found.values())


def variable(path: str) -> str:
    """Return the environment variable by which tasks find what hosts mount at a path:
    ``TERRADASK_MOUNT_DATA_LAKE`` for ``/data/lake``.
    """
    return "TERRADASK_MOUNT_" + re.sub("[^A-Z0-9]+", "_", path.strip("/").upper())
