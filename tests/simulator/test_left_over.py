"""`leftovers` finds everything that a workspace has left, and nothing of another one."""

from __future__ import annotations

import contextlib
import json

import pytest

from ..left_over import leftovers
from ..trust import TRUST

pytestmark = [pytest.mark.simulator]

POLICY = json.dumps(
    {
        "Version": "2012-10-17",
        "Statement": [{"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"}],
    }
)


def test_leftovers_finds_what_carries_tag_or_name_and_nothing_else(bare_sim):
    with bare_sim.applied(), contextlib.ExitStack() as clients:
        made = {}
        for service in ("ec2", "s3", "iam", "logs", "secretsmanager", "budgets", "sns"):
            made[service] = clients.enter_context(contextlib.closing(bare_sim.client(service)))
        tags = [{"Key": "terradask:workspace", "Value": "w"}]
        other = [{"Key": "terradask:workspace", "Value": "w-2"}]
        assert leftovers("w") == []
        vpc = made["ec2"].create_vpc(
            CidrBlock=bare_sim.vpc_cidr, TagSpecifications=[{"ResourceType": "vpc", "Tags": tags}]
        )["Vpc"]["VpcId"]
        first, second = bare_sim.vpc_cidr.split(".")[:2]
        subnet = made["ec2"].create_subnet(VpcId=vpc, CidrBlock=f"{first}.{second}.0.0/24")[
            "Subnet"
        ]["SubnetId"]
        nat = made["ec2"].create_nat_gateway(
            SubnetId=subnet,
            ConnectivityType="private",
            TagSpecifications=[{"ResourceType": "natgateway", "Tags": tags}],
        )["NatGateway"]["NatGatewayId"]
        for bucket in (
            "terradask-w-123456789012-us-east-1",
            "terradask-w-2-123456789012-us-east-1",
        ):
            made["s3"].create_bucket(Bucket=bucket)
        made["s3"].put_object(
            Bucket="terradask-w-123456789012-us-east-1", Key="clusters/etl/run.json", Body=b"{}"
        )
        made["iam"].create_role(RoleName="terradask-w-worker", AssumeRolePolicyDocument=TRUST)
        made["iam"].create_role(
            RoleName="terradask-w-2-worker", AssumeRolePolicyDocument=TRUST, Tags=other
        )
        made["iam"].create_instance_profile(InstanceProfileName="terradask-w-worker")
        made["iam"].create_policy(PolicyName="terradask-w-2-own", PolicyDocument=POLICY, Tags=other)
        made["logs"].create_log_group(logGroupName="/terradask/w")
        made["logs"].create_log_group(logGroupName="/terradask/w-2")
        for name in ("terradask/w/etl", "terradask/w/etl-2", "terradask/w-2/etl"):
            made["secretsmanager"].create_secret(Name=name, SecretString="x")
        for name in ("terradask-w.all", "terradask-w-2.all"):
            made["budgets"].create_budget(
                AccountId="123456789012",
                Budget={
                    "BudgetName": name,
                    "BudgetType": "COST",
                    "BudgetLimit": {"Amount": "9", "Unit": "USD"},
                    "TimeUnit": "MONTHLY",
                },
            )
        topic, _ = (
            made["sns"].create_topic(Name=name)["TopicArn"]
            for name in ("terradask-w-ends", "terradask-w-2-ends")
        )
        assert leftovers("w") == [
            "bucket terradask-w-123456789012-us-east-1",
            "budget terradask-w.all",
            "instance-profile terradask-w-worker",
            "log-group /terradask/w",
            f"nat-gateway {nat}",
            "role terradask-w-worker",
            "secret terradask/w/etl",
            "secret terradask/w/etl-2",
            f"topic {topic}",
            f"vpc {vpc}",
        ]
        assert leftovers("w", cluster="etl") == [
            "object s3://terradask-w-123456789012-us-east-1/clusters/etl/run.json",
            "secret terradask/w/etl",
        ]
        assert leftovers("absent") == []
