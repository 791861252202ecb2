"""Launch templates: the configuration of hosts before they read their tags. A workspace has one for
each role and architecture.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import Construct, LaunchTemplate, at
from terradask_modules.names import ROOT_DEVICE
from terradask_modules.reservations import BLOCK
from terradask_modules.where import Where

#: AWS (documented, gp3-performance): A gp3 volume of EBS has 3,000 IOPS and 125 MiB/s in its price,
#: up to 500 IOPS for each GiB, and 0.25 MiB/s for each IOPS.
#: https://docs.aws.amazon.com/ebs/latest/userguide/general-purpose.html
_GP3_IOPS = 3000
_IOPS_PER_MIBPS = 4


def template_key(role: str, group: str | None) -> str:
    """Return the key of a template in `Templates.by_name`."""
    if group is None:
        return role
    return group if role == "worker" else f"{role}-{group}"


@dataclass(frozen=True, kw_only=True)
class HostTemplate:
    """One role's, or one group's, part of a template. Values may be Terraform's references."""

    role: str
    #: The group of workers whose own it is.
    group: str | None = None
    architecture: str
    image_id: str
    disk_size_gib: int
    security_group_ids: Sequence[str]
    #: ``true`` or ``false``.
    public_address: str
    #: The instance profile, by ``arn`` or by ``name``.
    profile: Mapping[str, str]
    #: MiB/s; None: gp3's free throughput.
    disk_throughput_mibps: int | None = None
    #: KMS key of the volume; None: AWS's own.
    kms_key_arn: str | None = None
    #: The type, where hosts run in a capacity block; None: that of their group.
    block_type: str | None = None

    @property
    def name(self) -> str:
        """Its unique name: its role, with its group."""
        return self.role if self.group is None else f"{self.role}-{self.group}"

    @property
    def key(self) -> str:
        """The same without the role of workers that have a group."""
        return template_key(self.role, self.group)

    @property
    def disk_performance(self) -> Mapping[str, int]:
        """Throughput, and the IOPS that it needs."""
        throughput = self.disk_throughput_mibps
        if throughput is None:
            return {}
        return {"throughput": throughput, "iops": max(_GP3_IOPS, throughput * _IOPS_PER_MIBPS)}


def _in_block(instance_type: str | None) -> dict[str, Any]:
    """Return a template's members for a capacity block, which its group targets.

    AWS (documented, cr-block-template): Auto Scaling launches into a capacity block by the market
    type of its launch template, beside the target of the group.
    https://docs.aws.amazon.com/autoscaling/ec2/userguide/target-capacity-reservations.html
    """
    if instance_type is None:
        return {}
    return {
        "instance_type": instance_type,
        "instance_market_options": {"market_type": BLOCK},
    }


class Templates(Construct):
    """Launch templates that clusters' groups refer to by id and version.

    Instances require IMDSv2 with a hop limit of one, see their own tags in the metadata, have
    encrypted disks, end when they power off, and have the workspace's tags on instance, volume and
    network interface from the start. Their group sets the type: a type here would have to be on
    offer in every zone of every group, or AWS would refuse to make the group.

    Resources created: a launch template for each role and architecture. They cost nothing.

    Parameters
    ----------
    where
        The workspace; or the cluster whose own the templates are.
    hosts
        What to make templates for.
    user_data_base64
        The cloud-config document, the same for all of them.
    tags
        Tags of the templates, and of what is launched from them.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        where: Where,
        hosts: list[HostTemplate],
        user_data_base64: str,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "templates")
        self._where = where
        owner = "" if where.cluster is None else f"cluster {where.cluster} in "
        self._whose = f"{owner}terradask workspace {where.workspace}"
        self._tags = dict(tags)
        self._user_data = user_data_base64
        #: Role, or special template's name -> architecture -> the template
        self.by_name: dict[str, dict[str, Any]] = {}
        for host in hosts:
            self.by_name.setdefault(host.key, {})[host.architecture] = self._template(host)

    def _template(self, host: HostTemplate) -> Any:
        name = self._where.host_name(host.name)
        tags = {**self._tags, "Name": name}
        template = LaunchTemplate(
            self,
            f"{host.name}-{host.architecture}",
            name=name if host.architecture == "x86_64" else f"{name}-{host.architecture}",
            description=f"Dask {host.role} hosts of {self._whose}",
            update_default_version=True,
            image_id=host.image_id,
            instance_initiated_shutdown_behavior="terminate",
            iam_instance_profile=dict(host.profile),
            **_in_block(host.block_type),
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                "http_put_response_hop_limit": 1,
                "instance_metadata_tags": "enabled",
            },
            block_device_mappings=[
                {
                    "deviceName": ROOT_DEVICE,
                    "ebs": {
                        "volumeType": "gp3",
                        "volumeSize": host.disk_size_gib,
                        "encrypted": "true",
                        "deleteOnTermination": "true",
                        **host.disk_performance,
                        **({} if host.kms_key_arn is None else {"kmsKeyId": host.kms_key_arn}),
                    },
                }
            ],
            network_interfaces=[
                {
                    "deviceIndex": 0,
                    "associatePublicIpAddress": host.public_address,
                    "deleteOnTermination": "true",
                    "securityGroups": list(host.security_group_ids),
                }
            ],
            tag_specifications=[
                {"resourceType": kind, "tags": tags}
                for kind in ("instance", "volume", "network-interface")
            ],
            user_data=self._user_data,
            tags=tags,
        )
        at(f"{host.name}-{host.architecture}", template)
        return template
