"""What is neither the attackers' nor the attacked, and secret things that can be told apart."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from terradask_modules.names import bucket_name, secret_id

from ...simulator.acting import ACCOUNT, REGION, Account
from ...trust import TRUST

FOREIGN_BUCKET, FOREIGN_GROUP, FOREIGN_SECRET = "prod-data", "prod-web", "prod/db-password"
#: A workspace whose name begins like that of the attacked one.
LONGER = "default-two"


def canary(name: str) -> str:
    """Return what a secret thing holds, to be told apart wherever it comes up."""
    return f"<canary of {name}>"


def plant_foreign(owner: Account, template_data: Mapping[str, Any], subnet: str) -> None:
    """Make what is neither the attackers' nor the attacked: by itself, and of a workspace whose
    name begins alike.
    """
    ec2, groups = owner.client("ec2"), owner.client("autoscaling")
    template = ec2.create_launch_template(
        LaunchTemplateName="prod", LaunchTemplateData=dict(template_data)
    )["LaunchTemplate"]["LaunchTemplateId"]
    longer = {"terradask:workspace": LONGER, "terradask:cluster": "etl"}
    for name, tags in ((FOREIGN_GROUP, {}), (f"terradask-{LONGER}-etl-workers", longer)):
        groups.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=2,
            DesiredCapacity=1,
            VPCZoneIdentifier=subnet,
            LaunchTemplate={"LaunchTemplateId": template, "Version": "1"},
            Tags=[{"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in tags.items()],
        )
    secrets = owner.client("secretsmanager")
    for name in (FOREIGN_SECRET, secret_id(LONGER, "etl")):
        secrets.create_secret(Name=name, SecretString=canary(name))
    s3 = owner.client("s3")
    for bucket in (FOREIGN_BUCKET, bucket_name(LONGER, ACCOUNT, REGION)):
        s3.create_bucket(Bucket=bucket)
        s3.put_object(Bucket=bucket, Key="clusters/etl/run.json", Body=canary(bucket))
    owner.client("iam").create_role(RoleName="prod-admin", AssumeRolePolicyDocument=TRUST)


def put_keys(owner: Account, workspace: str, clusters: Sequence[str]) -> None:
    """Give secrets values that can be told apart wherever they come up."""
    for cluster in clusters:
        name = secret_id(workspace, cluster)
        owner.client("secretsmanager").put_secret_value(
            SecretId=name, SecretString=json.dumps({"format": 1, "key": canary(name)})
        )
