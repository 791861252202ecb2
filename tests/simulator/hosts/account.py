"""The AWS account that hosts live in: moto behind a real endpoint."""

from __future__ import annotations

import json
from typing import Any

import boto3

REGION = "us-east-1"

BUCKET = "terradask-hosts-123456789012-us-east-1"

LOG_GROUP = "/terradask/hosts"

#: The role of all hosts.
ROLE_ARN = "arn:aws:iam::123456789012:role/company/hosts"


class Account:
    """An AWS account on moto with a bucket, a log group and whatever clusters a test asks for.

    Parameters
    ----------
    endpoint
        Where moto answers.
    forks
        Where host programs are forked.
    forks_dask
        Whether their Dask processes are forked too, or start from nothing.
    """

    def __init__(self, endpoint: str, forks: str, *, forks_dask: bool) -> None:
        self.endpoint, self.forks, self.forks_dask = endpoint, forks, forks_dask
        session = boto3.Session(
            aws_access_key_id="a", aws_secret_access_key="b", region_name=REGION
        )

        def make(name: str) -> Any:
            return session.client(name, endpoint_url=endpoint)

        self.s3, self.secrets, self.logs = make("s3"), make("secretsmanager"), make("logs")
        self.autoscaling, self.ec2 = make("autoscaling"), make("ec2")
        self.sts, self.sns, self.sqs = make("sts"), make("sns"), make("sqs")
        self.s3.create_bucket(Bucket=BUCKET)
        self.logs.create_log_group(logGroupName=LOG_GROUP)
        image = self.ec2.describe_images(
            Filters=[{"Name": "name", "Values": ["al2023-ami-2023*-x86_64"]}]
        )["Images"][0]["ImageId"]
        self.ec2.create_launch_template(
            LaunchTemplateName="host",
            LaunchTemplateData={"ImageId": image, "InstanceType": "t3.micro"},
        )

    def close(self) -> None:
        for client in (
            self.s3,
            self.secrets,
            self.logs,
            self.autoscaling,
            self.ec2,
            self.sts,
            self.sns,
            self.sqs,
        ):
            client.close()

    def put(self, key: str, document: dict[str, Any]) -> None:
        self.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(document))

    def get(self, key: str) -> dict[str, Any] | None:
        try:
            return json.loads(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        except self.s3.exceptions.NoSuchKey:
            return None

    def group(self, name: str, size: int) -> list[str]:
        self.autoscaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            LaunchTemplate={"LaunchTemplateName": "host", "Version": "1"},
            MinSize=0,
            MaxSize=10,
            DesiredCapacity=size,
            AvailabilityZones=["us-east-1a"],
        )
        return [instance["InstanceId"] for instance in self.describe(name)["Instances"]]

    def session(self, instance_id: str, role_arn: str = ROLE_ARN) -> dict[str, str]:
        """Return the variables with the credentials that EC2 hands out to an instance."""
        found = self.sts.assume_role(RoleArn=role_arn, RoleSessionName=instance_id)["Credentials"]
        return {
            "AWS_ACCESS_KEY_ID": found["AccessKeyId"],
            "AWS_SECRET_ACCESS_KEY": found["SecretAccessKey"],
            "AWS_SESSION_TOKEN": found["SessionToken"],
        }

    def describe(self, name: str) -> dict[str, Any]:
        return self.autoscaling.describe_auto_scaling_groups(AutoScalingGroupNames=[name])[
            "AutoScalingGroups"
        ][0]
