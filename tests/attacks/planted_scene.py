"""A cluster whose documents a colleague may write, and what must stay as it is whatever is written
there.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from terradask import Workspace
from terradask_simulator import Simulator

from ..quick_provider import QuickProvider
from ..simulator.acting import Account

BUCKET = "terradask-default-123456789012-us-east-1"
FOREIGN_GROUP, FOREIGN_SECRET = "prod-web", "prod/db-password"
#: Another cluster's. Secrets Manager puts six characters behind a name, so that without them its
#: ARN could be that of the secret "terradask/default/etl".
SIMILAR_SECRET = "terradask/default/etl-marias"


@dataclass
class Scene:
    """A deployed cluster ``etl``; a colleague who holds ``user`` alone; and things that belong to
    neither.
    """

    workspace: Workspace
    colleague: Account
    owner: Account
    clients: contextlib.ExitStack
    template: str = ""
    subnet: str = ""
    ids: dict[str, str] = field(default_factory=dict)

    def plant(self, key: str, document: Any) -> None:
        """Write an object, as the colleague."""
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        self.colleague.client("s3").put_object(Bucket=BUCKET, Key=key, Body=body)

    def document(self, key: str) -> dict[str, Any]:
        """Read an object."""
        answer = self.colleague.client("s3").get_object(Bucket=BUCKET, Key=key)
        found: dict[str, Any] = json.load(answer["Body"])
        return found

    def group(self, name: str, tags: dict[str, str] | None = None) -> None:
        """Make a group with an instance, as the account's owner."""
        self.owner.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=2,
            DesiredCapacity=1,
            VPCZoneIdentifier=self.subnet,
            LaunchTemplate={"LaunchTemplateId": self.template, "Version": "1"},
            Tags=[
                {"Key": k, "Value": v, "PropagateAtLaunch": True} for k, v in (tags or {}).items()
            ],
        )
        self.clients.callback(
            self.owner.client("autoscaling").delete_auto_scaling_group,
            AutoScalingGroupName=name,
            ForceDelete=True,
        )

    def desired(self, name: str) -> int | None:
        """Return a group's number; None if it is gone."""
        found = self.owner.client("autoscaling").describe_auto_scaling_groups(
            AutoScalingGroupNames=[name]
        )["AutoScalingGroups"]
        return found[0]["DesiredCapacity"] if found else None

    def untouched(self) -> bool:
        """Return whether everything foreign is as it was."""
        secrets = self.owner.client("secretsmanager")
        templates = self.owner.client("ec2").describe_launch_templates(
            LaunchTemplateIds=[self.template]
        )["LaunchTemplates"]
        return (
            self.desired(FOREIGN_GROUP) == 1
            and all(
                secrets.get_secret_value(SecretId=name)["SecretString"] == "hunter2"
                for name in (FOREIGN_SECRET, SIMILAR_SECRET)
            )
            and len(templates) == 1
        )

    def is_closing(self) -> bool:
        """Return whether the cluster is marked for destruction."""
        found = self.owner.client("s3").list_objects_v2(
            Bucket=BUCKET, Prefix="clusters/etl/closing.json"
        )
        return bool(found.get("Contents"))


@pytest.fixture(scope="module")
def scene(
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    quick_provider: QuickProvider,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Scene]:
    """The scene; the administrator, who is tricked, is this process."""
    folder: Path = tmp_path_factory.mktemp("administrator")
    quick_provider.lock(folder)
    (folder / "terradask.toml").write_text("[cluster]\nmax_workers = 3\n")
    with contextlib.ExitStack() as clients, sim.applied():
        colleague = Account(sim, sim.environ_of("colleague", *policies["user"]), clients)
        owner = Account(sim, sim.environ, clients)
        workspace = Workspace.load(folder)
        found = Scene(workspace, colleague, owner, clients)
        ec2 = owner.client("ec2")
        made = ec2.create_launch_template(
            LaunchTemplateName="prod",
            LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
        )
        found.template = made["LaunchTemplate"]["LaunchTemplateId"]
        clients.callback(ec2.delete_launch_template, LaunchTemplateId=found.template)
        zones = workspace.baseline().zones
        found.subnet = next(iter(zones.values())).worker_subnet_id
        found.group(FOREIGN_GROUP)
        secrets = owner.client("secretsmanager")
        for name in (FOREIGN_SECRET, SIMILAR_SECRET):
            found.ids[name] = secrets.create_secret(Name=name, SecretString="hunter2")["ARN"]
            clients.callback(secrets.delete_secret, SecretId=name, ForceDeleteWithoutRecovery=True)
        workspace.apply(workspace.plan_cluster("etl"))
        try:
            yield found
        finally:
            with contextlib.suppress(Exception):
                workspace.repair_state("etl")
            with contextlib.suppress(Exception):
                workspace.destroy_cluster("etl")
