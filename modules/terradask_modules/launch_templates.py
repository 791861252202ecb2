"""Launch templates: what a host is before it knows who it is. One for each role and architecture of a workspace."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from terradask_modules.aws import Construct, LaunchTemplate, at
from terradask_modules.names import resource_name

#: EC2's limit on user data, before base64.
MAX_USER_DATA_BYTES = 16_384


@dataclass(frozen=True, kw_only=True)
class HostTemplate:
    """What is particular to one role's template."""

    role: str
    architecture: str
    image_id: str
    instance_type: str
    disk_size_gib: int
    profile_arn: str
    security_group_id: str
    public_address: bool
    #: KMS key of the volume; None: AWS's own.
    kms_key_arn: str | None = None


class Templates(Construct):
    """Launch templates that clusters' groups refer to by id and version.

    Instances demand IMDSv2 with a hop limit of one, see their own tags in the metadata, have encrypted disks, end when they
    power off, and carry the workspace's tags on instance, volume and network interface from birth.

    Resources created: a launch template for each role and architecture. They cost nothing.

    Permissions needed: ``ec2:CreateLaunchTemplate``, ``CreateLaunchTemplateVersion``, ``ModifyLaunchTemplate``,
    ``DescribeLaunchTemplates``, ``DescribeLaunchTemplateVersions``, ``DeleteLaunchTemplate``, ``CreateTags``.

    Parameters
    ----------
    scope
        The stack.
    workspace
        Name of the workspace.
    hosts
        What to make templates for.
    user_data
        The cloud-config document, the same for all of them.
    tags
        Tags of the templates, and of what is launched from them.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        workspace: str,
        hosts: list[HostTemplate],
        user_data: str,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, "templates")
        size = len(user_data.encode())
        if size > MAX_USER_DATA_BYTES:
            raise ValueError(f"user data is {size} bytes, EC2 takes {MAX_USER_DATA_BYTES} at most")
        self._workspace = workspace
        self._tags = dict(tags)
        self._user_data = base64.b64encode(user_data.encode()).decode()
        #: role -> architecture -> the template
        self.by_role: dict[str, dict[str, Any]] = {}
        for host in hosts:
            self.by_role.setdefault(host.role, {})[host.architecture] = self._template(host)

    def _template(self, host: HostTemplate) -> Any:
        name = resource_name(self._workspace, host.role)
        tags = {**self._tags, "Name": name}
        template = LaunchTemplate(
            self,
            f"{host.role}-{host.architecture}",
            name=name if host.architecture == "x86_64" else f"{name}-{host.architecture}",
            description=f"Dask {host.role} hosts of terradask workspace {self._workspace}",
            update_default_version=True,
            image_id=host.image_id,
            instance_type=host.instance_type,
            instance_initiated_shutdown_behavior="terminate",
            iam_instance_profile={"arn": host.profile_arn},
            metadata_options={
                "http_endpoint": "enabled",
                "http_tokens": "required",
                "http_put_response_hop_limit": 1,
                "instance_metadata_tags": "enabled",
            },
            block_device_mappings=[
                {
                    "deviceName": "/dev/xvda",
                    "ebs": {
                        "volumeType": "gp3",
                        "volumeSize": host.disk_size_gib,
                        "encrypted": "true",
                        "deleteOnTermination": "true",
                        **({} if host.kms_key_arn is None else {"kmsKeyId": host.kms_key_arn}),
                    },
                }
            ],
            network_interfaces=[
                {
                    "deviceIndex": 0,
                    "associatePublicIpAddress": str(host.public_address).lower(),
                    "deleteOnTermination": "true",
                    "securityGroups": [host.security_group_id],
                }
            ],
            tag_specifications=[{"resourceType": kind, "tags": tags} for kind in ("instance", "volume", "network-interface")],
            user_data=self._user_data,
            tags=tags,
        )
        at(f"{host.role}-{host.architecture}", template)
        return template
