"""An isolated cluster's stack: what its hosts may do and reach ends at the cluster."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from terradask_modules.errors import InvalidInput
from terradask_modules.names import host_name, role_name
from terradask_modules.policies import PolicyScope, host_statements
from terradask_modules.where import Where
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings

Document = dict[str, Any]
Resources = dict[str, dict[str, Any]]

ISOLATED = {"isolation": "cluster"}
OWN = {
    "aws_iam_role": {"scheduler", "worker"},
    "aws_iam_role_policy": {"scheduler", "worker"},
    "aws_iam_instance_profile": {"scheduler", "worker"},
    "aws_security_group": {"scheduler", "worker"},
    "aws_launch_template": {"scheduler-x86_64", "worker-x86_64"},
    "aws_vpc_security_group_ingress_rule": {
        "scheduler-from-worker",
        "worker-from-scheduler",
        "worker-from-worker",
    },
    "aws_vpc_security_group_egress_rule": {
        "scheduler-to-worker",
        "worker-to-scheduler",
        "worker-to-worker",
    },
}
WORKSPACE = Where(partition="aws", region="us-east-1", account="123456789012", workspace="default")
WHERE = PolicyScope(
    where=WORKSPACE.of_cluster("etl"),
    groups=("scheduler", "workers-spot"),
)


@pytest.fixture(scope="module")
def network(synth: Any) -> Resources:
    sections = {
        "ingress": [{"cidr": "203.0.113.7/32"}],
        "nat": "none",
        "interface_endpoints": ["sts"],
        "data_buckets": ["lake/raw"],
    }
    found: Resources = synth("network", workspace=ISOLATED, network=sections)["resource"]
    return found


@pytest.fixture(scope="module")
def cluster(synth: Any) -> Resources:
    found: Resources = synth("etl", workspace=ISOLATED)["resource"]
    return found


def test_a_cluster_makes_its_own_hosts_only_when_isolated(cluster: Resources, synth: Any) -> None:
    assert {kind: set(found) for kind, found in cluster.items() if kind in OWN} == OWN
    assert not OWN.keys() & synth("etl")["resource"].keys()


def test_everything_of_its_own_carries_its_name_and_tag(cluster: Resources) -> None:
    for kind in OWN.keys() - {"aws_iam_role_policy"}:
        for found in cluster[kind].values():
            assert (
                found["tags"].items()
                >= {"terradask:workspace": "default", "terradask:cluster": "etl"}.items()
            )
    for role in ("scheduler", "worker"):
        assert cluster["aws_security_group"][role]["name"] == f"terradask-default.etl-{role}"
        assert (
            cluster["aws_launch_template"][f"{role}-x86_64"]["name"]
            == f"terradask-default.etl-{role}"
        )
        assert cluster["aws_iam_role"][role]["name"].endswith(f"}}terradask-default.etl-{role}")


def test_hosts_are_launched_from_its_own_templates(cluster: Resources) -> None:
    for group, role in (("scheduler", "scheduler"), ("workers", "worker")):
        policy = cluster["aws_autoscaling_group"][group]["mixed_instances_policy"][
            "launch_template"
        ]["launch_template_specification"]
        template = f"aws_launch_template.{role}-x86_64"
        assert policy == {
            "launch_template_id": f"${{{template}.id}}",
            "version": f"${{{template}.latest_version}}",
        }
        profile = cluster["aws_launch_template"][f"{role}-x86_64"]["iam_instance_profile"]
        assert profile == {"arn": f"${{aws_iam_instance_profile.{role}.arn}}"}


def test_no_rule_names_anything_but_the_clusters_own_groups(cluster: Resources) -> None:
    own = {f"${{aws_security_group.{role}.id}}" for role in ("scheduler", "worker")}
    for direction in ("ingress", "egress"):
        for rule in cluster[f"aws_vpc_security_group_{direction}_rule"].values():
            assert {rule["security_group_id"], rule["referenced_security_group_id"]} <= own
            assert not {"cidr_ipv4", "cidr_ipv6", "prefix_list_id"} & rule.keys()


def test_the_networks_groups_for_the_outside_lead_to_no_host(
    network: Resources, cluster: Resources
) -> None:
    outside = {f"${{aws_security_group.{name}.id}}" for name in ("hosts", "clients")}
    rules = {
        name: rule
        for kind in ("ingress", "egress")
        for name, rule in network[f"aws_vpc_security_group_{kind}_rule"].items()
    }
    named = {
        name for name, rule in rules.items() if rule.get("referenced_security_group_id") in outside
    }
    assert named == {"endpoints-from-hosts"}
    assert {name for name, rule in rules.items() if rule["security_group_id"] in outside} == {
        "hosts-to-https",
        "clients-from-203_0_113_7_32-8786-8787",
    }
    groups = {
        name: found["network_interfaces"][0]["security_groups"]
        for name, found in cluster["aws_launch_template"].items()
    }
    assert [len(ids) for ids in (groups["scheduler-x86_64"], groups["worker-x86_64"])] == [4, 3]
    assert not any(".clients}" in group for group in groups["worker-x86_64"])


def test_who_reaches_the_scheduler_can_be_the_clusters_own(synth: Any) -> None:
    rules = [
        {"ports": [8786, "8787-8788"], "cidr": "203.0.113.0/24"},
        {"ports": [8786], "cidr": "2001:db8::/56"},
    ]
    found = synth("etl", workspace=ISOLATED, cluster={"ingress": rules})["resource"]
    own = found["aws_vpc_security_group_ingress_rule"]
    added = {
        name: rule
        for name, rule in own.items()
        if name not in OWN["aws_vpc_security_group_ingress_rule"]
    }
    assert {
        (rule["from_port"], rule["to_port"], rule.get("cidr_ipv4") or rule["cidr_ipv6"])
        for rule in added.values()
    } == {
        (8786, 8786, "203.0.113.0/24"),
        (8787, 8788, "203.0.113.0/24"),
        (8786, 8786, "2001:db8::/56"),
    }
    assert {rule["security_group_id"] for rule in added.values()} == {
        "${aws_security_group.scheduler.id}"
    }
    # Instead of whom the network lets in: that group is left out.
    groups = found["aws_launch_template"]["scheduler-x86_64"]["network_interfaces"][0][
        "security_groups"
    ]
    assert len(groups) == 3
    assert not any(".clients}" in group for group in groups)
    closed = synth("etl", workspace=ISOLATED, cluster={"ingress": []})["resource"]
    assert (
        set(closed["aws_vpc_security_group_ingress_rule"])
        == OWN["aws_vpc_security_group_ingress_rule"]
    )
    assert (
        len(
            closed["aws_launch_template"]["scheduler-x86_64"]["network_interfaces"][0][
                "security_groups"
            ]
        )
        == 3
    )


def test_a_clusters_own_destinations_are_in_a_group_of_the_networks(synth: Any) -> None:
    to_database = {"ports": [5432], "destination": "10.1.0.0/16", "reason": "orders database"}
    found = synth(
        "network",
        workspace=ISOLATED,
        network={
            "egress": [
                {**to_database, "clusters": ["etl", "my-reports"]},
                {**to_database, "ports": [1433]},
            ]
        },
    )["resource"]
    rules = found["aws_vpc_security_group_egress_rule"]

    assert {
        rule["security_group_id"]: rule["from_port"]
        for name, rule in rules.items()
        if name.startswith("hosts") and rule["cidr_ipv4"] == "10.1.0.0/16"
    } == {
        "${aws_security_group.hosts.id}": 1433,
        "${aws_security_group.hosts-etl.id}": 5432,
        "${aws_security_group.hosts-my-reports.id}": 5432,
    }
    described = found["aws_s3_object"]["workspace"]["content"]
    assert '"hosts-etl" = aws_security_group.hosts-etl.id' in described


def test_a_cluster_without_destinations_of_its_own_has_the_common_group_twice(
    cluster: Resources,
) -> None:
    body = "jsondecode(data.aws_s3_object.baseline.body).isolated.security_groups"
    for template in cluster["aws_launch_template"].values():
        groups = template["network_interfaces"][0]["security_groups"]
        assert groups[-1] == f'${{try({body}["hosts-etl"], {body}.hosts)}}'
        assert f"${{{body}.hosts}}" in groups


def test_in_a_workspace_that_is_shared_a_cluster_makes_no_rules(synth: Any) -> None:
    found = synth("etl", cluster={"ingress": [{"cidr": "203.0.113.0/24"}]})["resource"]
    assert "aws_vpc_security_group_ingress_rule" not in found


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_a_roles_rights_name_the_one_cluster(role: str) -> None:
    statements = host_statements(WHERE, role)
    shared = {"TellAbsentFromForbidden", "MakeLogStreams", "SeeGroups"}
    for statement in statements:
        if statement["Sid"] == "TagOwnParts":
            # Ids of volumes and interfaces name no cluster: it is all in the conditions.
            continue
        found = statement["Resource"]
        resources = [found] if isinstance(found, str) else found
        own = [arn for arn in resources if "etl" in arn]
        assert (
            statement["Sid"] in shared
            or [arn for arn in resources if not arn.endswith("/host/*")] == own
        )
        assert "*" not in "".join(arn.rpartition("/etl")[2] for arn in own if ":secret:" in arn)
    conditions = [
        statement["Condition"]["StringEquals"]
        for statement in statements
        if "StringEquals" in statement.get("Condition", {}) and statement["Sid"] not in shared
    ]
    both = {
        "aws:ResourceTag/terradask:workspace": "default",
        "aws:ResourceTag/terradask:cluster": "etl",
    }
    asked = {key.replace("Resource", "Request"): value for key, value in both.items()}
    assert conditions.count({**both, **asked}) == 1
    assert all(condition in (both, {**both, **asked}) for condition in conditions)


@pytest.mark.parametrize("role", ["scheduler", "worker"])
def test_a_shared_role_takes_the_same_actions(role: str) -> None:
    def actions(where: PolicyScope) -> set[str]:
        found = (statement["Action"] for statement in host_statements(where, role))
        return {action for one in found for action in ([one] if isinstance(one, str) else one)}

    assert actions(WHERE) == actions(replace(WHERE, where=WORKSPACE))


def test_a_role_may_move_its_clusters_groups_each_by_name(synth: Any) -> None:
    begins = (
        "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:*:"
        "autoScalingGroupName/terradask-default-etl-"
    )
    settings = {
        "spot_policy": "spot_with_fallback",
        "worker_groups": {"gpu": {"spot_policy": "spot"}},
    }
    resources = synth("etl", workspace={"isolation": "cluster"}, cluster=settings)["resource"]
    for role in ("scheduler", "worker"):
        policy = resources["aws_iam_role_policy"][role]["policy"]
        assert all(
            f"{begins}{key}" in policy
            for key in ("scheduler", "workers", "workers-spot", "gpu-spot")
        )
        assert f"{begins}*" not in policy
    assert WHERE.group_arns == [f"{begins}scheduler", f"{begins}workers-spot"]


def test_rights_beside_the_workspace_come_from_the_network(
    network: Resources, cluster: Resources
) -> None:
    policies = {role: policy["policy"] for role, policy in cluster["aws_iam_role_policy"].items()}
    shared = ".isolated.access, try(jsondecode(data.aws_s3_object.baseline.body).isolated."
    assert f"{shared}task_rights.etl, [])" in policies["scheduler"]
    assert policies["worker"].endswith(f"{shared}task_rights.etl, [])))}})}}")
    # Of a network of an older version there is none.
    assert policies["scheduler"].endswith(".isolated.scheduler_access, [])))})}")
    document = network["aws_s3_object"]["workspace"]["content"]
    assert "arn:aws:s3:::lake/raw/*" in document
    assert '"isolation" = "cluster"' in document


def test_roles_are_bounded_by_what_any_host_may_do(network: Resources, cluster: Resources) -> None:
    boundary = network["aws_iam_policy"]["boundary"]
    assert (boundary["name"], boundary["path"]) == (
        "terradask-default-hosts",
        "/terradask/default/",
    )
    # The tag of the calling role, and not Terraform's reference.
    assert "$${aws:PrincipalTag/terradask:cluster}" in boundary["policy"]
    allowed, host = (
        {
            action
            for one in json.loads(text)["Statement"]
            if one["Effect"] == "Allow"
            for action in ([one["Action"]] if isinstance(one["Action"], str) else one["Action"])
        }
        for text in (
            boundary["policy"],
            network["aws_iam_role_policy"]["scheduler"]["policy"],
        )
    )
    assert allowed == host
    for role in cluster["aws_iam_role"].values():
        assert role["permissions_boundary"].endswith(".isolated.permissions_boundary}")


def test_a_companys_boundary_takes_the_place_of_ours(synth: Any) -> None:
    company = "arn:aws:iam::123456789012:policy/company"
    found = synth("network", workspace=ISOLATED, network={"permissions_boundary": company})[
        "resource"
    ]
    assert "aws_iam_policy" not in found
    assert f'"permissions_boundary" = "{company}"' in found["aws_s3_object"]["workspace"]["content"]


def test_a_bound_that_iam_would_refuse_is_refused_first(synth: Any) -> None:
    buckets = [f"a-bucket-with-a-long-name-{number:02}" for number in range(30)]
    with pytest.raises(InvalidInput) as caught:
        synth("network", workspace=ISOLATED, network={"data_buckets": buckets})
    assert "bounds the roles of isolated clusters is longer than AWS allows" in str(caught.value)
    assert caught.value.allowed == "6144 characters"


@pytest.mark.parametrize(
    ("given", "where"),
    [
        ({"instance_profiles": {"scheduler": "s", "worker": "w"}}, "instance_profiles"),
        (
            {
                "vpc_id": "vpc-0123456789abcdef0",
                "subnets": {
                    "us-east-1a": {
                        "scheduler": "subnet-0123456789abcdef0",
                        "worker": "subnet-0123456789abcdef0",
                    }
                },
                "security_groups": {
                    "scheduler": "sg-0123456789abcdef0",
                    "worker": "sg-0123456789abcdef0",
                },
            },
            "security_groups",
        ),
    ],
)
def test_what_is_given_for_all_clusters_isolates_none(given: dict[str, Any], where: str) -> None:
    with pytest.raises(SettingsError, match=f"network.{where} gives one for all"):
        load_settings(overrides={"workspace": ISOLATED, "network": given})


def test_names_of_two_owners_never_meet() -> None:
    assert host_name("a", "worker", "b") != host_name("a-b", "worker")
    long = role_name("w" * 20, "scheduler", "p" * 24, "c" * 32)
    assert len(long) <= 64
    assert long != role_name("w" * 20, "scheduler", "p" * 24, "c" * 31 + "d")
    assert role_name("w" * 20, "scheduler", "p" * 24).endswith("-scheduler")
