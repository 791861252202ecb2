"""Two clusters of a workspace that isolates them: each lives on rights of its own, and reaches
nothing of the other's.

Every caller holds its generated policy alone, and lies in a VPC that somebody else made: the one of
the workspace that all tests share.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from distributed import Client

from terradask import Cluster
from terradask._aws.session import Aws
from terradask._workspace.caller_scope import caller_scope
from terradask_modules.caller_policies import CALLERS, Caller, caller_policies
from terradask_simulator import Simulator
from terradask_simulator.iam import denied_by, needless
from terradask_stacks.loading import load_settings

from ..left_over import leftovers
from ..quick_provider import QuickProvider
from ..waiting import HANG_SECONDS, eventually
from .acting import ACCOUNT, Account, host, refused
from .host_parts import make_volume, wait_for_tags, whose
from .walled import ROLES, SETTINGS, Walled

pytestmark = [pytest.mark.simulator, pytest.mark.life]

BUCKET = f"terradask-walled-{ACCOUNT}-us-east-1"

#: What this life doesn't show: a retired worker's leaving.
UNSEEN = {
    # No host is kept prepared.
    "autoscaling:CompleteLifecycleAction",
    "autoscaling:TerminateInstanceInAutoScalingGroup",
    # The scheduler's host looks at its groups once a minute.
    "autoscaling:DescribeAutoScalingGroups",
    # Nothing is missing on any market.
    "autoscaling:DescribeScalingActivities",
    # No upload of an environment fails.
    "s3:AbortMultipartUpload",
    # No agent of Session Manager's runs here.
    "ssm:UpdateInstanceInformation",
    *(f"ssmmessages:Create{kind}Channel" for kind in ("Control", "Data")),
    *(f"ssmmessages:Open{kind}Channel" for kind in ("Control", "Data")),
}

#: What only a change of a standing cluster or of the boundary calls.
CHANGES = {
    "ec2:CreateLaunchTemplateVersion",
    "ec2:CreateTags",
    "ec2:DeleteTags",
    "ec2:ModifyLaunchTemplate",
    "ec2:ModifySecurityGroupRules",
    "iam:PutRolePermissionsBoundary",
    "iam:TagInstanceProfile",
    "iam:TagRole",
    "iam:UntagInstanceProfile",
    "iam:UntagRole",
}


@pytest.fixture(scope="module")
def walled(
    sim: Simulator, quick_provider: QuickProvider, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Walled]:
    """The workspace with its network, deployed by ``setup``; removed by it afterwards."""
    folder = tmp_path_factory.mktemp("walled")
    quick_provider.lock(folder)
    with sim.applied():
        with contextlib.closing(sim.client("s3")) as s3:
            shared = json.load(
                s3.get_object(
                    Bucket=f"terradask-default-{ACCOUNT}-us-east-1", Key="workspace.json"
                )["Body"]
            )
        (folder / "terradask.toml").write_text(
            SETTINGS.format(**shared, **shared["zones"]["us-east-1a"])
        )
        scope = caller_scope(load_settings(folder).settings, Aws("us-east-1"))
        policies = {caller: list(caller_policies(scope, caller).values()) for caller in CALLERS}
        state = {"TERRADASK_STATE_DIR": str(folder / ".terradask")}
        environs = {
            caller: {**sim.environ_of(f"walled-{caller}", *policies[caller]), **state}
            for caller in CALLERS
        }
        workspace = Walled(sim, folder, policies, environs)
        try:
            workspace.run("setup", "apply", "network", "--yes")
            yield workspace
        finally:
            workspace.run("setup", "destroy", "network", "--yes")
        assert workspace.denied("setup") == []


@pytest.fixture(scope="module")
def both(walled: Walled) -> Iterator[dict[str, Cluster]]:
    """A declared cluster, deployed by ``ongoing``, and one that ``user`` makes meanwhile; both
    running, started by ``user``.
    """
    walled.sim.reset_calls()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as clusters,
        ThreadPoolExecutor(1) as pool,
    ):
        patch.chdir(walled.folder)
        for name, value in walled.environs["user"].items():
            patch.setenv(name, value)
        declared = pool.submit(walled.run_beside, "ongoing", "apply", "one", "--yes")
        # Its only worker is in a group with a name, which roles and policies have to know. Its
        # clients are let in by a rule of its own.
        groups = {
            "gpu": {
                "vm_types": ["m6i.large"],
                "n_workers": 1,
                "max_workers": 2,
                "resources": {"GPU": 1},
            }
        }
        mine = {"private_to_creator": True, "allow_ingress_from": "me"}
        two = clusters.enter_context(Cluster("two", n_workers=0, worker_groups=groups, **mine))
        declared.result()
        one = clusters.enter_context(Cluster("one", connect="ssm"))
        assert (walled.denied("ongoing"), walled.denied("user")) == ([], [])
        yield {"one": one, "two": two}


@pytest.fixture
def clients() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


@pytest.fixture
def owner(walled: Walled, clients: contextlib.ExitStack) -> Account:
    return Account(walled.sim, walled.sim.environ, clients)


def test_a_host_reaches_nothing_of_the_other_cluster(
    walled: Walled, both: dict[str, Cluster], owner: Account, clients: contextlib.ExitStack
) -> None:
    theirs = "terradask-walled-two-gpu"
    groups = owner.client("autoscaling").describe_auto_scaling_groups(
        AutoScalingGroupNames=[theirs]
    )["AutoScalingGroups"]
    instance = groups[0]["Instances"][0]["InstanceId"]
    for role in ("scheduler", "worker"):
        mine = host(owner, walled.sim, clients, f"terradask/walled/terradask-walled.one-{role}")
        s3, logs, scaling = mine.client("s3"), mine.client("logs"), mine.client("autoscaling")
        assert s3.get_object(Bucket=BUCKET, Key="clusters/one/run.json")["Body"].read()
        for name in (
            "cluster.json",
            "run.json",
            "scheduler.json",
            "software.lock",
            "terraform.tfstate",
        ):
            assert refused(s3.get_object, Bucket=BUCKET, Key=f"clusters/two/{name}")
        for name in ("scheduler.json", f"hosts/{instance}.json"):
            assert refused(s3.put_object, Bucket=BUCKET, Key=f"clusters/two/{name}", Body=b"")
        assert refused(
            mine.client("secretsmanager").get_secret_value, SecretId="terradask/walled/two"
        )
        event = [{"timestamp": 1, "message": "forged"}]
        assert refused(
            logs.put_log_events,
            logGroupName="/terradask/walled",
            logStreamName=f"two/20261120T051500Z-1f3a9c/workers/{instance}",
            logEvents=event,
        )
        leave = {"InstanceId": instance, "ShouldDecrementDesiredCapacity": True}
        assert refused(scaling.terminate_instance_in_auto_scaling_group, **leave)
        assert refused(scaling.set_desired_capacity, AutoScalingGroupName=theirs, DesiredCapacity=0)
        assert refused(mine.client("ec2").terminate_instances, InstanceIds=[instance])
        assume = {"RoleArn": f"{ROLES}terradask-walled.two-worker", "RoleSessionName": "mine"}
        assert refused(mine.client("sts").assume_role, **assume)


def test_tags_are_on_every_volume_and_interface_and_stay(
    walled: Walled, both: dict[str, Cluster], owner: Account, clients: contextlib.ExitStack
) -> None:
    ec2 = owner.client("ec2")
    hosts = {name: wait_for_tags(ec2, "walled", name, 2) for name in both}
    assert all(one.tags["terradask:run:owner"] for name in hosts for one in hosts[name])
    parts = [part for name in hosts for one in hosts[name] for part in one.parts]
    parts.append(make_volume(ec2, clients, whose("walled", "two")[:2]))
    for role in ("scheduler", "worker"):
        mine = host(owner, walled.sim, clients, f"terradask/walled/terradask-walled.one-{role}")
        tag = mine.client("ec2").create_tags
        for cluster in both:
            assert all(refused(tag, Resources=[p], Tags=whose("walled", cluster)) for p in parts)


def test_who_is_let_in_stands_in_the_clusters_own_group(
    both: dict[str, Cluster], owner: Account
) -> None:
    ec2 = owner.client("ec2")
    tags = {
        "terradask:workspace": "walled",
        "terradask:cluster": "two",
        "Name": "terradask-walled.two-scheduler",
    }
    groups = ec2.describe_security_groups(
        Filters=[{"Name": f"tag:{name}", "Values": [value]} for name, value in tags.items()]
    )
    (group,) = groups["SecurityGroups"]
    blocks = {
        block["CidrIp"]: rule for rule in group["IpPermissions"] for block in rule["IpRanges"]
    }
    assert blocks.keys() == {"127.0.0.1/32"}
    assert both["two"].scheduler_address.startswith("tls://127.")
    assert both["one"].scheduler_address.startswith("tls://127.0.0.1:")


@pytest.mark.parametrize("caller", ["ongoing", "user"])
def test_who_makes_clusters_makes_no_other_roles_and_opens_no_shared_door(
    walled: Walled,
    both: dict[str, Cluster],
    owner: Account,
    clients: contextlib.ExitStack,
    caller: Caller,
) -> None:
    theirs = Account(walled.sim, walled.environs[caller], clients)
    iam, ec2, scaling = theirs.client("iam"), theirs.client("ec2"), theirs.client("autoscaling")
    with contextlib.closing(walled.sim.client("s3")) as s3:
        baseline = json.load(s3.get_object(Bucket=BUCKET, Key="workspace.json")["Body"])
    boundary = baseline["isolated"]["permissions_boundary"]
    own, everything = (
        "terradask-walled.one-worker",
        json.dumps({"Version": "2012-10-17", "Statement": []}),
    )
    fresh = {"RoleName": "mine", "AssumeRolePolicyDocument": everything}
    assert refused(iam.create_role, **fresh, Path="/terradask/walled/")
    assert refused(iam.create_role, **fresh, PermissionsBoundary=boundary)
    assert refused(
        iam.create_role, **fresh, Path="/terradask/default/", PermissionsBoundary=boundary
    )
    assert refused(iam.delete_role_permissions_boundary, RoleName=own)
    assert refused(
        iam.put_role_permissions_boundary,
        RoleName=own,
        PermissionsBoundary=f"arn:aws:iam::{ACCOUNT}:policy/other",
    )
    for key in ("terradask:workspace", "terradask:cluster"):
        moved = [{"Key": key, "Value": "two"}]
        assert refused(iam.tag_role, RoleName=own, Tags=moved)
        assert refused(iam.tag_instance_profile, InstanceProfileName=own, Tags=moved)
        assert refused(iam.untag_role, RoleName=own, TagKeys=[key])
        assert refused(iam.untag_instance_profile, InstanceProfileName=own, TagKeys=[key])
    assert refused(
        iam.create_policy_version, PolicyArn=boundary, PolicyDocument=everything, SetAsDefault=True
    )
    assert refused(
        iam.put_role_policy,
        RoleName="terradask-walled-worker",
        PolicyName="more",
        PolicyDocument=everything,
    )
    assert refused(
        iam.attach_role_policy,
        RoleName=own,
        PolicyArn="arn:aws:iam::aws:policy/AdministratorAccess",
    )

    shared = [
        *baseline["security_groups"].values(),
        *baseline["isolated"]["security_groups"].values(),
    ]
    ssh = {
        "IpPermissions": [
            {
                "IpProtocol": "tcp",
                "FromPort": 22,
                "ToPort": 22,
                "IpRanges": [{"CidrIp": "0.0.0.0/0"}],
            }
        ]
    }
    for group in shared:
        assert refused(ec2.authorize_security_group_ingress, GroupId=group, **ssh)
        assert refused(ec2.authorize_security_group_egress, GroupId=group, **ssh)
        assert refused(
            ec2.create_tags, Resources=[group], Tags=[{"Key": "terradask:cluster", "Value": "one"}]
        )
    template = baseline["templates"]["worker"]["x86_64"]
    data = {"ImageId": "ami-12c6146b"}
    assert refused(
        ec2.create_launch_template_version, LaunchTemplateId=template["id"], LaunchTemplateData=data
    )
    # The shared role can't be handed to anything.
    tags = [{"Key": "terradask:workspace", "Value": "walled", "PropagateAtLaunch": True}]
    launch = {"LaunchTemplateId": template["id"], "Version": template["version"]}
    numbers = {
        "MinSize": 0,
        "MaxSize": 1,
        "VPCZoneIdentifier": baseline["zones"]["us-east-1a"]["worker_subnet_id"],
    }
    name = "terradask-walled-mine-workers"
    assert refused(
        scaling.create_auto_scaling_group,
        AutoScalingGroupName=name,
        LaunchTemplate=launch,
        Tags=tags,
        **numbers,
    )


def test_only_the_named_cluster_has_its_destinations(
    walled: Walled, both: dict[str, Cluster], owner: Account
) -> None:
    ec2 = owner.client("ec2")
    described = ec2.describe_security_groups()["SecurityGroups"]
    names = {group["GroupId"]: group["GroupName"] for group in described}

    def groups_of(cluster: str) -> set[str]:
        of_cluster = [{"Name": "tag:terradask:cluster", "Values": [cluster]}]
        cards = ec2.describe_network_interfaces(Filters=of_cluster)["NetworkInterfaces"]
        assert cards
        return {names[group["GroupId"]] for card in cards for group in card["Groups"]}

    assert "terradask-walled-hosts-one" in groups_of("one")
    assert not any("hosts-one" in name for name in groups_of("two"))
    assert "terradask-walled-hosts" in groups_of("one") & groups_of("two")


def test_each_lives_on_rights_of_its_own_and_leaves_nothing(
    walled: Walled, both: dict[str, Cluster], owner: Account
) -> None:
    for cluster in both.values():
        with cluster.get_client() as client:
            assert client.submit(sum, [1, 2, 3]).result(HANG_SECONDS) == 6
    groups = both["two"].worker_groups
    # Which group a host that has joined is of, the next look at AWS says.
    eventually(
        lambda: {n: len(one.observed) for n, one in groups.items()} == {"workers": 0, "gpu": 1}
    )
    iam, two = owner.client("iam"), both["two"]
    roles = [f"terradask-walled.{name}-{role}" for name in both for role in ("scheduler", "worker")]
    documents = {
        role: iam.get_role_policy(RoleName=role, PolicyName=role)["PolicyDocument"]
        for role in roles
    }
    already = set(walled.denied("user"))
    eventually(lambda: all("logs:PutLogEvents" in walled.actions(role) for role in roles))
    instances = {one.instance_id for one in walled.sim.hosts() if one.cluster == "two"}
    with Client(two.scheduler_address, security=two.security) as client:
        client.shutdown()
    # The scheduler's host brings all groups to zero: nobody else is there to do it.
    eventually(lambda: not instances & set(walled.sim.running_instances()))
    for cluster in both.values():
        cluster.close()
    assert set(walled.denied("user")) == already
    requests = walled.sim.requests()
    for role, document in documents.items():
        logged = requests[f"{ROLES}{role}"]
        assert denied_by(document, [one.request for one in logged if one.allowed]) == []
        # The scheduler that nobody shut down had no numbers to move at its end.
        unseen = UNSEEN | ({"autoscaling:SetDesiredCapacity"} if ".one-" in role else set())
        # To be told that an object isn't there: a worker may find its scheduler's at once.
        unseen |= {"s3:ListBucket"} if role.endswith("worker") else set()
        assert {
            action for _, action in needless(document, [one.request for one in logged])
        } <= unseen
    walled.run("ongoing", "destroy", "one", "--yes")
    for caller in ("ongoing", "user"):
        logged = walled.sim.requests()[f"arn:aws:iam::{ACCOUNT}:role/walled-{caller}"]
        statements = [
            statement for document in walled.policies[caller] for statement in document["Statement"]
        ]
        own = [statement for statement in statements if statement["Sid"].endswith("OfClusters")]
        unused = needless(
            {"Version": "2012-10-17", "Statement": own},
            [one.request for one in logged if one.allowed],
        )
        # A sweep lists roles, and detaches policies that others attached.
        assert {it for _, it in unused} <= CHANGES | {"iam:ListRoles", "iam:DetachRolePolicy"}
        assert {action for _, action in unused} >= CHANGES
    with walled.sim.applied():
        assert [leftovers("walled", cluster=name) for name in both] == [[], []]
