"""A VPC, a bucket, a role and groups on an embedded AWS, made with boto3 alone."""

from __future__ import annotations

import hashlib
import io
import json
import time
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest

from terradask_simulator import Simulator

from .trust import TRUST
from .waiting import eventually

DEFAULT_UNIT = """\
[Unit]
StartLimitIntervalSec=60
StartLimitBurst=3
FailureAction=poweroff

[Service]
ExecStart=/opt/terradask/venv/bin/python -m terradask_host --greeting hello
ExecStopPost=+/bin/sh -c "[ $SERVICE_RESULT != success ] || systemctl poweroff"
Restart=on-failure
RestartSec=100ms
"""


@dataclass
class SmallNetwork:
    """A VPC, a bucket, a role and groups, made with boto3 alone, for tests of the
    simulator itself.
    """

    sim: Simulator
    workspace: str
    vpc_id: str = ""
    subnets: list[str] = field(default_factory=list)
    security_group: str = ""
    bucket: str = ""
    role: str = ""
    clients: ExitStack = field(default_factory=ExitStack)

    def client(self, service: str) -> Any:
        """Return a client that is closed with the network."""
        client = self.sim.client(service)
        self.clients.callback(client.close)
        return client

    def build(self) -> None:
        """Make the network."""
        first, second = self.sim.vpc_cidr.split(".")[:2]
        self.ec2, self.autoscaling = self.client("ec2"), self.client("autoscaling")
        self.vpc_id = self.ec2.create_vpc(CidrBlock=self.sim.vpc_cidr)["Vpc"]["VpcId"]
        for number, zone in enumerate("ab"):
            subnet = self.ec2.create_subnet(
                VpcId=self.vpc_id,
                CidrBlock=f"{first}.{second}.{number * 16}.0/20",
                AvailabilityZone=f"us-east-1{zone}",
            )
            self.subnets.append(subnet["Subnet"]["SubnetId"])
        self.security_group = self.ec2.create_security_group(
            GroupName=f"terradask-{self.workspace}", Description="hosts", VpcId=self.vpc_id
        )["GroupId"]
        self.bucket = f"terradask-{self.workspace}-123456789012-us-east-1"
        s3 = self.client("s3")
        s3.create_bucket(Bucket=self.bucket)
        self.role = f"terradask-{self.workspace}-worker"
        iam = self.client("iam")
        iam.create_role(RoleName=self.role, AssumeRolePolicyDocument=TRUST)
        iam.create_instance_profile(InstanceProfileName=self.role)
        iam.add_role_to_instance_profile(InstanceProfileName=self.role, RoleName=self.role)

    def wheel(self, main: str) -> tuple[str, str]:
        """Put a wheel with a host program into the bucket; return key and checksum."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("terradask_host/__init__.py", "")
            archive.writestr("terradask_host/__main__.py", main)
        sha256 = hashlib.sha256(content.getvalue()).hexdigest()
        key = f"host/{sha256}/terradask_host-0-py3-none-any.whl"
        self.client("s3").put_object(Bucket=self.bucket, Key=key, Body=content.getvalue())
        return key, sha256

    def user_data(self, key: str, sha256: str, unit: str = DEFAULT_UNIT) -> str:
        """Return user data as the contract wants it."""
        host = {
            "format": 1,
            "workspace": self.workspace,
            "region": "us-east-1",
            "bucket": self.bucket,
            "log_group": f"/terradask/{self.workspace}",
            "wheel": {"key": key, "sha256": sha256},
        }
        files = [
            {
                "path": "/etc/terradask/host.json",
                "permissions": "0644",
                "content": json.dumps(host),
            },
            {
                "path": "/opt/terradask/boot.sh",
                "permissions": "0755",
                "content": "#!/bin/sh\nexit 1\n",
            },
            {"path": "/etc/systemd/system/terradask-host.service", "content": unit},
        ]
        return "#cloud-config\n" + json.dumps(
            {"write_files": files, "runcmd": [["/opt/terradask/boot.sh"]]}
        )

    def template(self, user_data: str = "", **data: Any) -> str:
        """Make a launch template and return its id."""
        import base64

        whole = {
            "ImageId": "ami-12c6146b",
            "InstanceType": "m7i.large",
            "IamInstanceProfile": {"Name": self.role},
            "MetadataOptions": {
                "HttpTokens": "required",
                "HttpPutResponseHopLimit": 1,
                "InstanceMetadataTags": "enabled",
            },
            "InstanceInitiatedShutdownBehavior": "terminate",
            "NetworkInterfaces": [
                {
                    "DeviceIndex": 0,
                    "AssociatePublicIpAddress": True,
                    "Groups": [self.security_group],
                }
            ],
            "TagSpecifications": [
                {
                    "ResourceType": kind,
                    "Tags": [{"Key": "terradask:workspace", "Value": self.workspace}],
                }
                for kind in ("instance", "volume", "network-interface")
            ],
            **data,
        }
        if user_data:
            whole["UserData"] = base64.b64encode(user_data.encode()).decode()
        made = self.ec2.create_launch_template(
            LaunchTemplateName=f"{self.workspace}-{time.monotonic_ns()}", LaunchTemplateData=whole
        )
        return str(made["LaunchTemplate"]["LaunchTemplateId"])

    def group(self, name: str, template: str, **settings: Any) -> str:
        """Make an Auto Scaling group at zero and return its name."""
        whole = {
            "MinSize": 0,
            "MaxSize": 20,
            "VPCZoneIdentifier": self.subnets[0],
            "MixedInstancesPolicy": {
                "LaunchTemplate": {
                    "LaunchTemplateSpecification": {"LaunchTemplateId": template, "Version": "1"},
                    "Overrides": [{"InstanceType": "m7i.xlarge"}, {"InstanceType": "m6i.xlarge"}],
                }
            },
            "Tags": [
                {"Key": "terradask:workspace", "Value": self.workspace, "PropagateAtLaunch": True},
                {"Key": "terradask:cluster", "Value": name, "PropagateAtLaunch": True},
                {"Key": "terradask:role", "Value": "worker", "PropagateAtLaunch": True},
                {"Key": "not-propagated", "Value": "x", "PropagateAtLaunch": False},
            ],
            **settings,
        }
        self.autoscaling.create_auto_scaling_group(AutoScalingGroupName=name, **whole)
        return name

    def want(self, name: str, desired: int) -> None:
        """Set a group's number."""
        self.autoscaling.set_desired_capacity(AutoScalingGroupName=name, DesiredCapacity=desired)

    def scaled(self, name: str, number: int) -> list[str]:
        """Set a group's number, wait until it has so many instances, and return their ids."""
        self.want(name, number)
        return self.reaches(name, number)

    def describe(self, name: str) -> dict[str, Any]:
        """Return a group."""
        groups = self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])
        return dict(groups["AutoScalingGroups"][0])

    def members(self, name: str) -> list[str]:
        """Return the ids of a group's instances."""
        return [instance["InstanceId"] for instance in self.describe(name)["Instances"]]

    def reaches(self, name: str, number: int) -> list[str]:
        """Wait until a group has so many instances and return their ids."""
        eventually(lambda: len(self.members(name)) == number)
        return self.members(name)

    def activities(self, name: str) -> list[dict[str, Any]]:
        """Return a group's scaling activities, newest first."""
        return list(
            self.autoscaling.describe_scaling_activities(AutoScalingGroupName=name)["Activities"]
        )

    def instances(self, ids: list[str]) -> list[dict[str, Any]]:
        """Return instances by id."""
        answer = self.ec2.describe_instances(InstanceIds=ids)
        return [
            instance
            for reservation in answer["Reservations"]
            for instance in reservation["Instances"]
        ]

    def groups(self) -> set[str]:
        """Return the names of all groups."""
        found = self.autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        return {one["AutoScalingGroupName"] for one in found}

    def delete_group(self, name: str) -> None:
        """Delete a group with its instances."""
        self.autoscaling.delete_auto_scaling_group(AutoScalingGroupName=name, ForceDelete=True)


@pytest.fixture(scope="module")
def network() -> Iterator[SmallNetwork]:
    """A small network on an embedded AWS of the module's own."""
    with Simulator.start() as simulator:
        made = SmallNetwork(simulator, "small")
        try:
            made.build()
            yield made
        finally:
            made.clients.close()
