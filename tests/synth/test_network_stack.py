"""The network's stack as JSON: its addresses, its ways out, its rights."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from ipaddress import ip_network
from pathlib import Path
from typing import Any

import pytest

from terradask_modules.errors import InvalidInput
from terradask_stacks.lock import EndpointService

from ..golden import check_golden

Document = dict[str, Any]
Synth = Callable[..., Document]

GOLDEN = Path(__file__).with_name("addresses.txt")
SERVICES = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]


def addresses(document: Document) -> list[str]:
    found = [
        f"{kind}.{name}" for kind, named in document.get("resource", {}).items() for name in named
    ]
    data = [
        f"data.{kind}.{name}" for kind, named in document.get("data", {}).items() for name in named
    ]
    return sorted(found + data)


def resource(document: Document, address: str) -> Any:
    kind, _, name = address.partition(".")
    return document["resource"][kind][name]


def test_addresses_are_those_in_the_golden_list(network: Document, cluster: Document) -> None:
    check_golden(
        GOLDEN, "\n".join(["# network", *addresses(network), "# etl", *addresses(cluster), ""])
    )


def test_adding_a_zone_changes_no_other_zone(synth: Synth, network: Document) -> None:
    more = synth("network", zones={"us-east-1a": 0, "us-east-1b": 1, "us-east-1c": 2})
    before = synth("network", zones={"us-east-1a": 0, "us-east-1b": 1})

    assert set(addresses(before)) < set(addresses(more))
    for kind in (
        "aws_subnet",
        "aws_route_table",
        "aws_route",
        "aws_nat_gateway",
        "aws_route_table_association",
    ):
        for name, old in before["resource"][kind].items():
            assert more["resource"][kind][name] == old


@pytest.mark.parametrize(
    ("nat", "gateways"),
    [
        ("none", []),
        ("single", ["nat-us-east-1b"]),
        ("per_zone", ["nat-us-east-1a", "nat-us-east-1b"]),
    ],
)
def test_nat_gateways_are_as_many_as_asked_for(synth: Synth, nat: str, gateways: list[str]) -> None:
    # The single one lies in the zone with the lowest slot, so that it doesn't move when a zone is
    # added in front.
    document = synth("network", zones={"us-east-1a": 1, "us-east-1b": 0}, network={"nat": nat})

    assert sorted(document["resource"].get("aws_nat_gateway", {})) == gateways


def routes(document: Document, subnet: str) -> Iterator[tuple[str, str]]:
    """Yield where a subnet's table leads: destination and what it goes through."""
    table = document["resource"]["aws_route_table_association"][subnet]["route_table_id"]
    for route in document["resource"].get("aws_route", {}).values():
        if route["route_table_id"] == table:
            through = next(key for key in ("gateway_id", "nat_gateway_id") if key in route)
            yield route["destination_cidr_block"], through
    if table in resource(document, "aws_vpc_endpoint.s3")["route_table_ids"]:
        yield "s3", "endpoint"


def reachable(document: Document, role: str, subnet: str) -> set[str]:
    """Derive which of the services that hosts call a role's host reaches from a subnet: routes,
    endpoints and the firewall.
    """
    group = f"${{aws_security_group.{role}.id}}"
    out = [
        rule
        for rule in document["resource"]["aws_vpc_security_group_egress_rule"].values()
        if rule["security_group_id"] == group
    ]
    https = any(rule.get("cidr_ipv4") == "0.0.0.0/0" and rule["from_port"] == 443 for rule in out)
    inside = any(
        rule.get("cidr_ipv4") == resource(document, "aws_vpc.this")["cidr_block"] for rule in out
    )
    template = resource(document, f"aws_launch_template.{role}-x86_64")
    public = template["network_interfaces"][0]["associate_public_ip_address"] == "true"
    found = set()
    for destination, through in routes(document, subnet):
        if destination == "s3":
            found.add("s3")
        elif https and (through == "nat_gateway_id" or public):
            found.update(SERVICES)
    endpoints = document["resource"]["aws_vpc_endpoint"]
    admitted = {
        rule["referenced_security_group_id"]
        for rule in document["resource"]["aws_vpc_security_group_ingress_rule"].values()
        if rule["security_group_id"] == "${aws_security_group.endpoints.id}"
    }
    if inside and group in admitted:
        found.update(
            name for name, endpoint in endpoints.items() if endpoint.get("private_dns_enabled")
        )
    return found


@pytest.mark.parametrize(
    ("settings", "kind"),
    [
        ({"nat": "single"}, "private"),
        ({"nat": "per_zone"}, "private"),
        ({"nat": "none", "interface_endpoints": SERVICES}, "private"),
        ({"nat": "none", "public_workers": True}, "public"),
    ],
)
def test_every_host_reaches_every_service_that_it_calls(
    synth: Synth, settings: dict[str, Any], kind: str
) -> None:
    document = synth("network", network=settings)

    described = document["resource"]["aws_s3_object"]["workspace"]["content"]
    for zone in ("us-east-1a", "us-east-1b"):
        assert f'"worker_subnet_id" = aws_subnet.{kind}-{zone}.id' in described
        assert f'"scheduler_subnet_id" = aws_subnet.public-{zone}.id' in described
        assert reachable(document, "worker", f"{kind}-{zone}") >= {"s3", *SERVICES}
        assert reachable(document, "scheduler", f"public-{zone}") >= {"s3", *SERVICES}


def test_without_a_way_out_the_derivation_says_so(synth: Synth) -> None:
    document = synth("network", network={"nat": "none", "interface_endpoints": ["logs"]})

    assert reachable(document, "worker", "private-us-east-1a") == {"s3", "logs"}


def test_nothing_is_let_in_by_default(synth: Synth) -> None:
    rules = synth("network")["resource"]["aws_vpc_security_group_ingress_rule"]

    assert all("referenced_security_group_id" in rule for rule in rules.values())
    default = synth("network")["resource"]["aws_default_security_group"]["this"]
    assert "ingress" not in default
    assert "egress" not in default


def test_ingress_rules_are_named_by_what_they_say(synth: Synth) -> None:
    rules = [
        {"cidr": "203.0.113.7/32", "ports": [8786, "8787-8788"]},
        {"cidr": "2001:db8::/56", "description": "office"},
    ]
    turned = synth("network", network={"ingress": rules[::-1]})["resource"][
        "aws_vpc_security_group_ingress_rule"
    ]

    assert (
        synth("network", network={"ingress": rules})["resource"][
            "aws_vpc_security_group_ingress_rule"
        ]
        == turned
    )
    named = {
        name: rule
        for name, rule in turned.items()
        if name.startswith("scheduler-from-") and name != "scheduler-from-worker"
    }
    assert set(named) == {
        "scheduler-from-203_0_113_7_32-8786-8786",
        "scheduler-from-203_0_113_7_32-8787-8788",
        "scheduler-from-2001_db8___56-8786-8787",
    }
    assert named["scheduler-from-2001_db8___56-8786-8787"]["cidr_ipv6"] == "2001:db8::/56"


def statements(document: Document, role: str) -> dict[str, Any]:
    policy = json.loads(resource(document, f"aws_iam_role_policy.{role}")["policy"])
    return {statement["Sid"]: statement for statement in policy["Statement"]}


def test_only_schedulers_move_numbers(network: Document) -> None:
    scheduler, worker = statements(network, "scheduler"), statements(network, "worker")

    assert set(scheduler) - set(worker) == {
        "TellOfCluster",
        "MoveOwnGroups",
        "SeeGroups",
    }
    assert set(worker) - set(scheduler) == {"JoinAndLeave"}
    assert set(worker["JoinAndLeave"]["Action"]) < set(scheduler["MoveOwnGroups"]["Action"])


def test_no_host_reads_terraforms_state(network: Document) -> None:
    bucket = "arn:aws:s3:::terradask-default-123456789012-us-east-1"
    readable = statements(network, "scheduler")["ReadWorkspace"]["Resource"]

    assert f"{bucket}/clusters/*/run.json" in readable
    cluster_resource_types = [arn for arn in readable if arn.startswith(f"{bucket}/clusters/")]
    assert not any(arn.endswith(("*/*", "tfstate", "clusters/*")) for arn in cluster_resource_types)
    others = {f"{bucket}/host/*", f"{bucket}/environments/*/*"}
    assert set(readable) - set(cluster_resource_types) == others


def test_data_ends_at_its_prefix(network: Document) -> None:
    worker = statements(network, "worker")

    assert worker["UseData"]["Resource"] == ["arn:aws:s3:::lake/raw/*", "arn:aws:s3:::results/*"]
    listing = {
        one["Resource"]: one.get("Condition") for sid, one in worker.items() if "List" in sid
    }
    assert listing["arn:aws:s3:::lake"] == {"StringLike": {"s3:prefix": ["raw", "raw/*"]}}
    assert listing["arn:aws:s3:::results"] is None


def _paths(number: int) -> dict[str, Any]:
    return {"data_buckets": [f"a-bucket-with-a-long-name-{i}/part-{i}" for i in range(number)]}


def test_parts_of_uploads_that_nobody_completed_are_removed(network: Document) -> None:
    rules = resource(network, "aws_s3_bucket.workspace")["lifecycle_rule"]
    of_all = [rule for rule in rules if rule["enabled"] and not rule.get("prefix")]
    assert [rule["abort_incomplete_multipart_upload_days"] for rule in of_all] == [7]


def test_many_data_buckets_fit_into_a_role(synth: Callable[..., Document]) -> None:
    document = synth("network", network=_paths(20))
    assert "s3:prefix" in document["resource"]["aws_iam_role_policy"]["scheduler"]["policy"]


def test_more_data_buckets_than_a_role_has_room_for_are_refused_first(
    synth: Callable[..., Document],
) -> None:
    with pytest.raises(InvalidInput) as caught:
        synth("network", network=_paths(30))
    assert "the schedulers' policy is longer than AWS allows" in str(caught.value)
    assert "30 data buckets" in str(caught.value.given)
    assert caught.value.allowed == "10240 characters"


def test_more_rights_of_tasks_than_a_role_has_room_for_are_refused_first(
    synth: Callable[..., Document],
) -> None:
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/a-table-with-a-long-name"
    rights = [
        {"reason": f"table {i}", "actions": ["dynamodb:GetItem"], "resources": [f"{table}-{i}"]}
        for i in range(60)
    ]
    with pytest.raises(InvalidInput) as caught:
        synth("network", network={"task_rights": rights})
    assert "60 task rights" in str(caught.value.given)
    assert caught.value.allowed == "10240 characters"
    assert "fewer network.data_buckets, network.task_rights" in str(caught.value.advice)
    # The boundary has less room, for all clusters together.
    rights = [{**one, "clusters": ["etl"]} for one in rights[:30]]
    with pytest.raises(InvalidInput, match="bounds the roles of isolated clusters is longer"):
        synth("network", workspace={"isolation": "cluster"}, network={"task_rights": rights})


def test_user_data_is_the_same_for_both_roles_and_names_no_cluster(network: Document) -> None:
    texts = {each["user_data"] for each in network["resource"]["aws_launch_template"].values()}

    (only,) = texts
    assert base64.b64decode(only).startswith(b"#cloud-config")


def test_everything_that_can_be_tagged_is(network: Document, cluster: Document) -> None:
    for document in (network, cluster):
        for kind, named in document["resource"].items():
            for name, body in named.items():
                if "tags" in body:
                    assert body["tags"]["terradask:workspace"] == "default", f"{kind}.{name}"
    untagged = {
        kind
        for kind, named in network["resource"].items()
        for body in named.values()
        if "tags" not in body
    }
    assert untagged == {
        "aws_iam_role_policy",
        "aws_route",
        "aws_route_table_association",
        "aws_s3_bucket_ownership_controls",
        "aws_s3_bucket_policy",
        "aws_s3_bucket_public_access_block",
        "aws_s3_bucket_server_side_encryption_configuration",
        "aws_s3_bucket_versioning",
    }


def test_objects_carry_no_more_tags_than_s3_takes(synth: Synth) -> None:
    tags = {f"k{number}": "v" for number in range(40)}
    for stack in ("network", "etl"):
        objects = synth(stack, workspace={"tags": tags})["resource"]["aws_s3_object"]
        assert all(len(item["tags"]) <= 10 for item in objects.values())


def test_smallest_networks_fit(synth: Synth) -> None:
    document = synth(
        "network",
        network={
            "cidr": "127.64.0.0/24",
            "private_subnet_prefix_length": 26,
            "public_subnet_prefix_length": 28,
        },
    )
    blocks = [
        ip_network(subnet["cidr_block"]) for subnet in document["resource"]["aws_subnet"].values()
    ]

    assert all(block.subnet_of(ip_network("127.64.0.0/24")) for block in blocks)


def test_descriptions_are_taken_as_they_stand(synth: Synth) -> None:
    document = synth(
        "network",
        network={"ingress": [{"cidr": "203.0.113.7/32", "description": "${path.module}"}]},
    )
    rules = document["resource"]["aws_vpc_security_group_ingress_rule"].values()

    assert "$${path.module}" in {rule["description"] for rule in rules}
    assert "$${path.module}" in resource(document, "aws_s3_object.workspace")["content"]


def test_endpoints_are_where_and_called_as_aws_has_them(synth: Synth) -> None:
    logs = EndpointService(name="cn.com.amazonaws.us-east-1.logs", zones=["us-east-1b"])
    endpoints = synth(
        "network",
        locked={"endpoint_services": {"logs": logs}},
        network={"interface_endpoints": ["logs", "sts"]},
    )["resource"]["aws_vpc_endpoint"]
    assert endpoints["logs"]["service_name"] == "cn.com.amazonaws.us-east-1.logs"
    assert endpoints["logs"]["subnet_ids"] == ["${aws_subnet.private-us-east-1b.id}"]
    assert endpoints["sts"]["service_name"] == "com.amazonaws.us-east-1.sts"
    assert len(endpoints["sts"]["subnet_ids"]) == 2
