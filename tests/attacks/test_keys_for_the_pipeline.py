"""A caller with the policy of `ongoing`, which deploys clusters and is to read no keys, wants those
of a cluster.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator

import pytest

from terradask_modules.caller_policies import CallerScope, caller_policies
from terradask_modules.policies import PolicyScope
from terradask_modules.where import Where
from terradask_simulator import Simulator

from ..simulator.acting import ACCOUNT, REGION, Account, code_of, refused
from ..trust import TRUST

pytestmark = [pytest.mark.simulator]

SECRETS = ("terradask/default/etl", "terradask/default/ml")
BUCKET = f"terradask-default-{ACCOUNT}-{REGION}"
KEYS = "the keys"
#: Of workspaces without and with declared private clusters.
ROLES = ("ongoing", "ongoing-where-some-are-private")

Caller = Callable[..., Account]


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def owner(sim: Simulator, clients: contextlib.ExitStack) -> Account:
    account = Account(sim, sim.environ, clients)
    secrets = account.client("secretsmanager")
    for name in SECRETS:
        secrets.create_secret(Name=name, SecretString=KEYS)
        clients.callback(secrets.delete_secret, SecretId=name, ForceDeleteWithoutRecovery=True)
    return account


@pytest.fixture
def ongoing(sim: Simulator, owner: Account, clients: contextlib.ExitStack) -> Caller:
    """Return a caller with the generated policy, of a workspace with some private clusters."""

    def make(*private_clusters: str) -> Account:
        place = PolicyScope(
            where=Where(partition="aws", region=REGION, account=ACCOUNT, workspace="default")
        )
        scope = CallerScope(hosts=place, private_clusters=private_clusters)
        documents = caller_policies(scope, "ongoing").values()
        role = ROLES[bool(private_clusters)]
        return Account(sim, sim.environ_of(role, *documents), clients)

    return make


def opened_for(*principals: str) -> str:
    statement = {
        "Effect": "Allow",
        "Principal": {"AWS": list(principals)},
        "Action": "secretsmanager:GetSecretValue",
        "Resource": "*",
    }
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


OPENINGS = {
    "itself": opened_for(*(f"arn:aws:iam::{ACCOUNT}:role/{role}" for role in ROLES)),
    "another account": opened_for("arn:aws:iam::999999999999:root"),
    "everybody": opened_for("*"),
}


@pytest.mark.parametrize("opening", OPENINGS)
def test_a_secret_is_opened_for_no_other_caller(ongoing: Caller, opening: str) -> None:
    put = {"ResourcePolicy": OPENINGS[opening], "BlockPublicPolicy": False}
    plain, private = (ongoing(*names).client("secretsmanager") for names in ((), ("ml",)))
    for secrets, name in ((plain, "etl"), (plain, "ml"), (private, "etl")):
        secret_id = f"terradask/default/{name}"
        message = refused(secrets.put_resource_policy, SecretId=secret_id, **put)
        assert "no identity-based policy allows the secretsmanager:PutResourcePolicy" in message
        assert refused(secrets.get_secret_value, SecretId=secret_id)


def test_a_secret_that_is_open_stays_closed_for_the_pipeline(
    owner: Account, ongoing: Caller
) -> None:
    secrets = ongoing("ml").client("secretsmanager")
    # The declared private cluster's, by its own right; the other's as an administrator has left it.
    secrets.put_resource_policy(SecretId=SECRETS[1], ResourcePolicy=OPENINGS["itself"])
    owner.client("secretsmanager").put_resource_policy(
        SecretId=SECRETS[0], ResourcePolicy=OPENINGS["everybody"]
    )
    for name in SECRETS:
        message = refused(secrets.get_secret_value, SecretId=name)
        assert message.endswith("with an explicit deny in an identity-based policy")


def a_profile(owner: Account, clients: contextlib.ExitStack) -> str:
    """Return the name of an instance profile with a role that isn't the workspace's."""
    iam, name = owner.client("iam"), "somebody-elses"
    iam.create_role(RoleName=name, AssumeRolePolicyDocument=TRUST)
    clients.callback(iam.delete_role, RoleName=name)
    iam.create_instance_profile(InstanceProfileName=name)
    clients.callback(iam.delete_instance_profile, InstanceProfileName=name)
    together = {"InstanceProfileName": name, "RoleName": name}
    iam.add_role_to_instance_profile(**together)
    clients.callback(iam.remove_role_from_instance_profile, **together)
    return name


def test_a_host_of_ones_own_is_made_of_the_workspaces_template_alone(
    clients: contextlib.ExitStack, owner: Account, ongoing: Caller
) -> None:
    """IAM knows no condition on user data: what is launched from the workspace's template runs what
    the caller says, with a host's role, as docs/iam.md says. Nothing wider is possible.
    """
    baseline = json.load(owner.client("s3").get_object(Bucket=BUCKET, Key="workspace.json")["Body"])
    found = baseline["templates"]["worker"]["x86_64"]
    template = {"LaunchTemplateId": found["id"], "Version": found["version"]}
    subnets = owner.client("ec2").describe_subnets(
        Filters=[{"Name": "tag:terradask:workspace", "Values": ["default"]}]
    )["Subnets"]
    ec2 = ongoing().client("ec2")
    own = {"MinCount": 1, "MaxCount": 1, "UserData": "#!/bin/sh\n", "DryRun": True}
    own["SubnetId"] = subnets[0]["SubnetId"]
    assert code_of(ec2.run_instances, LaunchTemplate=template, **own) == "DryRunOperation"
    image = {"ImageId": "ami-1", "InstanceType": "m7i.large"}
    assert refused(ec2.run_instances, **image, **own)
    assert refused(ec2.run_instances, LaunchTemplate=template, ImageId="ami-2", **own)
    admin = {"IamInstanceProfile": {"Name": a_profile(owner, clients)}}
    assert refused(ec2.run_instances, LaunchTemplate=template, **admin, **own)
    untagged = [
        {"ResourceType": "instance", "Tags": [{"Key": "terradask:workspace", "Value": "x"}]}
    ]
    assert refused(ec2.run_instances, LaunchTemplate=template, TagSpecifications=untagged, **own)
