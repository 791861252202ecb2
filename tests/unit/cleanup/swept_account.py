"""An account with everything in it that commands which died can leave."""

from __future__ import annotations

from terradask._cleanup.orphans import Sweep, Swept
from terradask._workspace.workspace import Workspace
from terradask_modules.names import clusters_role_path, role_name

ACCOUNT, REGION = "123456789012", "us-east-1"
BUCKET = f"terradask-default-{ACCOUNT}-{REGION}"
#: As if everything had been there for a while: nothing is waited for.
GRACE = -2
DEAD = 4_000_000
STACK = "cdktf.out/stacks/made"


class Account:
    """Makes things as clusters' stacks and hosts do."""

    def __init__(self, workspace: Workspace) -> None:
        client = workspace.aws.client
        self.ec2, self.s3, self.iam, self.secrets, self.autoscaling = map(
            client, ("ec2", "s3", "iam", "secretsmanager", "autoscaling")
        )
        self.subnet = self.ec2.describe_subnets()["Subnets"][0]

    @staticmethod
    def tags(cluster: str | None, workspace: str = "default", **more: str) -> list[dict[str, str]]:
        whose = {
            "terradask:workspace": workspace,
            **({} if cluster is None else {"terradask:cluster": cluster}),
            **more,
        }
        return [{"Key": key, "Value": value} for key, value in whose.items()]

    def put(self, key: str, body: str = "{}") -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=body.encode())

    def keys(self) -> list[str]:
        return [
            entry["Key"] for entry in self.s3.list_objects_v2(Bucket=BUCKET).get("Contents", ())
        ]

    def instance(
        self, cluster: str | None, group: str | None = None, workspace: str = "default"
    ) -> str:
        more = {} if group is None else {"aws:autoscaling:groupName": group}
        tags = [{"ResourceType": "instance", "Tags": self.tags(cluster, workspace, **more)}]
        made = self.ec2.run_instances(
            ImageId="ami-12c6146b",
            InstanceType="m6i.large",
            MinCount=1,
            MaxCount=1,
            TagSpecifications=tags,
        )
        return str(made["Instances"][0]["InstanceId"])

    def state_of(self, instance: str) -> str:
        return str(
            self.ec2.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"][0][
                "State"
            ]["Name"]
        )

    def group(self, cluster: str, name: str, workspace: str = "default") -> str:
        self.ec2.create_launch_template(
            LaunchTemplateName=name,
            LaunchTemplateData={"InstanceType": "m6i.large", "ImageId": "ami-1"},
        )
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=1,
            VPCZoneIdentifier=self.subnet["SubnetId"],
            LaunchTemplate={"LaunchTemplateName": name},
            Tags=[{**tag, "PropagateAtLaunch": True} for tag in self.tags(cluster, workspace)],
        )
        return name

    def groups(self) -> set[str]:
        return {
            group["AutoScalingGroupName"]
            for group in self.autoscaling.describe_auto_scaling_groups()["AutoScalingGroups"]
        }

    def secret(self, cluster: str, workspace: str = "default", *, scheduled: bool = False) -> None:
        name = f"terradask/{workspace}/{cluster}"
        self.secrets.create_secret(Name=name, SecretString="{}", Tags=self.tags(cluster, workspace))
        if scheduled:
            self.secrets.delete_secret(SecretId=name)

    def secret_names(self) -> set[str]:
        return {
            secret["Name"]
            for secret in self.secrets.list_secrets(IncludePlannedDeletion=True)["SecretList"]
        }

    def volume(self, name: str) -> str:
        tags = [{"ResourceType": "volume", "Tags": self.tags(None, Name=name)}]
        zone = self.subnet["AvailabilityZone"]
        return str(
            self.ec2.create_volume(
                AvailabilityZone=zone, Size=8, VolumeType="gp3", TagSpecifications=tags
            )["VolumeId"]
        )

    def interface(self, name: str) -> str:
        tags = [{"ResourceType": "network-interface", "Tags": self.tags(None, Name=name)}]
        made = self.ec2.create_network_interface(
            SubnetId=self.subnet["SubnetId"], TagSpecifications=tags
        )
        return str(made["NetworkInterface"]["NetworkInterfaceId"])

    def security_group(self, cluster: str) -> str:
        tags = [{"ResourceType": "security-group", "Tags": self.tags(cluster)}]
        made = self.ec2.create_security_group(
            GroupName=f"terradask-default.{cluster}-worker",
            Description="x",
            VpcId=self.subnet["VpcId"],
            TagSpecifications=tags,
        )
        return str(made["GroupId"])

    def role(self, cluster: str) -> str:
        name, path = role_name("default", "worker", "", cluster), clusters_role_path("default")
        self.iam.create_role(
            RoleName=name, Path=path, AssumeRolePolicyDocument="{}", Tags=self.tags(cluster)
        )
        self.iam.create_instance_profile(
            InstanceProfileName=name, Path=path, Tags=self.tags(cluster)
        )
        self.iam.add_role_to_instance_profile(InstanceProfileName=name, RoleName=name)
        return name

    def roles(self) -> set[str]:
        return {role["RoleName"] for role in self.iam.list_roles()["Roles"]}


def keys(found: Sweep) -> set[tuple[str, str]]:
    return {stray.key for stray in found.strays}


def swept(workspace: Workspace) -> Swept:
    return workspace.sweep(grace_seconds=GRACE)
