"""The built-in checks: how they read a plan, what they leave alone, and the state."""

from __future__ import annotations

import json
from typing import Any

import pytest

from terradask._plans.policy.document import Unknown, read
from terradask._plans.policy.patterns import forbidden_in_user_data, secrets_in
from terradask.errors import InvalidInput
from terradask.policy import DataBucket, TaskPolicy, TaskRight, WorkspaceRules, evaluate
from terradask_modules.policies import trust_policy
from terradask_stacks.settings import PolicySettings

from .policy_plans import OPEN, RULE, TODAY, found, plan, resource


@pytest.mark.parametrize(
    "document", [{}, {"resource_changes": []}, {"format_version": "1.2"}, {"values": {}}]
)
def test_what_is_no_plan_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidInput, match="not a plan"):
        read(document)


def test_what_stays_is_checked_and_what_goes_is_not() -> None:
    document = plan(
        resource(f"{RULE}.stays", OPEN, ("no-op",)),
        resource(f"{RULE}.changes", OPEN, ("update",)),
        resource(f"{RULE}.replaced", OPEN, ("delete", "create")),
        resource(f"{RULE}.goes", None, ("delete",)),
        resource(f"{RULE}.forgotten", None, ("forget",)),
    )

    assert found(document) == [
        ("P2", f"{RULE}.{name}") for name in ("changes", "replaced", "stays")
    ]


def test_resources_of_modules_and_of_for_each_are_checked_with_their_references() -> None:
    template = "aws_launch_template.worker"
    configuration = {
        "module_calls": {
            "team": {
                "module": {
                    "resources": [
                        {
                            "address": f"{RULE}.in",
                            "expressions": {
                                "security_group_id": {"references": ["aws_security_group.x.id"]}
                            },
                        },
                        {"address": "aws_security_group.x", "expressions": {}},
                        {
                            "address": template,
                            "expressions": {
                                "network_interfaces": [
                                    {"security_groups": {"references": ["aws_security_group.x.id"]}}
                                ]
                            },
                        },
                    ]
                }
            }
        }
    }
    unknown = {"security_group_id": True}
    document = plan(
        resource(
            f'module.team["a"].{RULE}.in',
            {"cidr_ipv4": "10.0.0.0/16", "from_port": 1, "to_port": 2},
            after_unknown=unknown,
        ),
        resource(
            'module.team["a"].aws_security_group.x', {"name": "x"}, after_unknown={"id": True}
        ),
        resource(
            f'module.team["a"].{template}',
            {"network_interfaces": [{"associate_public_ip_address": "false"}]},
            after_unknown={"network_interfaces": [{"security_groups": True}]},
        ),
        configuration=configuration,
    )

    (rule,) = read(document).of(RULE)
    assert rule.values["security_group_id"] == Unknown(("module.team.aws_security_group.x",))
    assert ("P4", f'module.team["a"].{RULE}.in') in found(document)


def test_a_policy_with_unknown_parts_is_read_from_the_configuration() -> None:
    taken = "${jsondecode(data.aws_s3_object.baseline.body).isolated.access}"
    text = f'${{jsonencode({{"Statement" = concat([], {taken[2:-1]})}})}}'
    wide = text.replace("isolated.access", "zones")
    for policy, expected in ((text, []), (wide, [("P6", "aws_iam_role_policy.w")])):
        entry = {
            "address": "aws_iam_role_policy.w",
            "expressions": {"policy": {"constant_value": policy}},
        }
        document = plan(
            resource("aws_iam_role_policy.w", {"name": "w"}, after_unknown={"policy": True}),
            configuration={"resources": [entry]},
        )
        assert found(document) == expected


def test_rules_that_a_group_repeats_are_one_finding_and_those_by_hand_another() -> None:
    def group(*blocks: str) -> dict[str, Any]:
        inline = {
            "from_port": 443,
            "to_port": 443,
            "protocol": "tcp",
            "cidr_blocks": list(blocks),
            "security_groups": [],
            "self": False,
        }
        return resource(
            "aws_security_group.scheduler", {"id": "sg-1", "ingress": [inline]}, ("no-op",)
        )

    repeated = plan(resource(f"{RULE}.in", OPEN, ("no-op",)), group("0.0.0.0/0"))
    by_hand = plan(group("203.0.113.0/24", "0.0.0.0/0"))

    assert found(repeated) == [("P2", f"{RULE}.in")]
    assert found(by_hand) == [("P2", "aws_security_group.scheduler")]
    finding = evaluate(by_hand, settings=PolicySettings(), today=TODAY)[0]
    assert "Terraform, which removes only its own rules: remove it" in str(finding.advice)
    finding = evaluate(repeated, settings=PolicySettings(), today=TODAY)[0]
    assert "name your clients" in str(finding.advice)
    written = {
        "resources": [{"address": "aws_security_group.scheduler", "expressions": {"ingress": {}}}]
    }
    finding = evaluate(
        plan(group("0.0.0.0/0"), configuration=written), settings=PolicySettings(), today=TODAY
    )[0]
    assert "name your clients" in str(finding.advice)


def test_a_rule_that_the_plan_removes_or_narrows_is_not_held_against_its_group() -> None:
    inline = {"from_port": 443, "to_port": 443, "protocol": "tcp", "cidr_blocks": ["0.0.0.0/0"]}
    group = resource(
        "aws_security_group.scheduler", {"id": "sg-1", "ingress": [inline]}, ("no-op",)
    )
    narrow = {**OPEN, "cidr_ipv4": "203.0.113.0/24"}

    assert found(plan(group, resource(f"{RULE}.in", None, ("delete",), before=OPEN))) == []
    assert found(plan(group, resource(f"{RULE}.in", narrow, ("update",), before=OPEN))) == []
    assert found(plan(group, resource(f"{RULE}.in", None, ("forget",), before=OPEN))) == [
        ("P2", "aws_security_group.scheduler")
    ]


def test_a_destination_that_the_plan_removes_or_changes_is_not_held_against_its_group() -> None:
    rule = "aws_vpc_security_group_egress_rule.out"
    out = {
        "security_group_id": "sg-1",
        "ip_protocol": "tcp",
        "from_port": 5432,
        "to_port": 5432,
        "cidr_ipv4": "52.1.0.0/16",
    }

    def group(**more: Any) -> dict[str, Any]:
        inline = {"from_port": 5432, "to_port": 5432, "protocol": "tcp"}
        inline |= {"cidr_blocks": ["52.1.0.0/16"], **more}
        return resource(
            "aws_security_group.scheduler", {"id": "sg-1", "egress": [inline]}, ("no-op",)
        )

    assert found(plan(group(), resource(rule, None, ("delete",), before=out))) == []
    assert found(plan(group(), resource(rule, out, ("no-op",), before=out))) == [("P2", rule)]
    for by_hand in (group(protocol="udp"), group(to_port=5433)):
        assert found(plan(by_hand, resource(rule, None, ("delete",), before=out))) == [
            ("P2", "aws_security_group.scheduler")
        ]


def test_a_right_that_the_plan_removes_is_not_held_against_its_role() -> None:
    def document(action: str) -> str:
        return json.dumps(
            {"Statement": [{"Effect": "Allow", "Action": action, "Resource": "arn:aws:sqs:::q"}]}
        )

    def role(name: str, action: str) -> dict[str, Any]:
        values = {
            "name": "r",
            "assume_role_policy": trust_policy("aws"),
            "inline_policy": [{"name": name, "policy": document(action)}],
        }
        return resource("aws_iam_role.worker", values, ("no-op",))

    before = {"role": "r", "name": "p", "policy": document("sqs:SendMessage")}
    address = "aws_iam_role_policy.worker"
    going = resource(address, None, ("delete",), before=before)

    assert found(plan(role("p", "sqs:SendMessage"), going)) == []
    staying = resource(address, before, ("no-op",), before=before)
    assert found(plan(role("p", "sqs:SendMessage"), staying)) == [("P6", address)]
    for by_hand in (role("other", "sqs:SendMessage"), role("p", "sqs:*")):
        assert found(plan(by_hand, going)) == [("P6", "aws_iam_role.worker")]


def test_groups_that_were_given_by_their_ids_are_known_by_who_carries_them() -> None:
    def template(role: str, group: str) -> dict[str, Any]:
        return resource(
            f"aws_launch_template.{role}",
            {"name": role, "network_interfaces": [{"security_groups": [group]}]},
        )

    def rule(**source: Any) -> dict[str, Any]:
        return resource(
            f"{RULE}.in",
            {
                "security_group_id": "sg-w",
                "from_port": 0,
                "to_port": 65535,
                "ip_protocol": "tcp",
                **source,
            },
        )

    hosts = (template("worker", "sg-w"), template("scheduler", "sg-s"))
    checks = {
        name: {check for check, _ in found(plan(*hosts, rule(**source)))} & {"P4"}
        for name, source in {
            "scheduler": {"referenced_security_group_id": "sg-s"},
            "worker": {"referenced_security_group_id": "sg-w"},
            "other": {"referenced_security_group_id": "sg-x"},
            "block": {"cidr_ipv4": "10.0.0.0/16"},
        }.items()
    }

    assert checks == {"scheduler": set(), "worker": set(), "other": {"P4"}, "block": {"P4"}}


# ---- what is left alone --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "arn:aws:secretsmanager:us-east-1:123456789012:secret:terradask/default/etl-AbCdEf",
        'token="$(curl -X PUT "http://169.254.169.254/latest/api/token")"',
        "X-aws-ec2-metadata-token-ttl-seconds: 300",
        "curl -H X-aws-ec2-metadata-token: ${token}",
        'password = "${var.password}"',
        "export DB_PASSWORD=$(aws secretsmanager get-secret-value --secret-id x)",
        "DB_PASSWORD=arn:aws:secretsmanager:us-east-1:123456789012:secret:x",
        "https://index.example.org/simple?token_type=a",
        "git@github.com:team/repository.git",
        '"secrets_prefix" = "terradask/default/"',
        '{"secret_id": "terradask/default/etl"}',
        "a4dc303d92647176e5ede2a2a29e0c6b3488a9b27c179d2dae2b5631e0455dd3",
        "the token of the metadata service expires",
    ],
)
def test_what_only_speaks_of_secrets_is_none(text: str) -> None:
    assert secrets_in(text) == []
    assert forbidden_in_user_data(text) == []


@pytest.mark.parametrize(
    "block", ["203.0.113.7/32", "10.0.0.0/8", "3.0.0.0/8", "2001:db8::/32", "2600:1f00::/24"]
)
def test_a_block_that_somebody_owns_may_come_in(block: str) -> None:
    name = "cidr_ipv6" if ":" in block else "cidr_ipv4"
    assert found(plan(resource(f"{RULE}.in", {**OPEN, "cidr_ipv4": None, name: block}))) == []


BUCKET = "terradask-blue-123456789012-us-east-1"
OWN_GROUPS = (
    "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:*:autoScalingGroupName/"
    "terradask-blue-*"
)
OWN_TAG = {"aws:ResourceTag/terradask:workspace": "blue"}
IN_ACCOUNT = {"aws:ResourceAccount": "123456789012"}
OWN_BUCKET = {"Condition": {"StringEqualsIfExists": IN_ACCOUNT}}


def _rights(statement: dict[str, Any], role: str = "worker", **more: Any) -> list[tuple[str, str]]:
    policy = json.dumps({"Version": "2012-10-17", "Statement": {"Effect": "Allow", **statement}})
    document = plan(
        resource("aws_s3_bucket.workspace", {"bucket": BUCKET}),
        resource(f"aws_iam_role_policy.{role}", {"policy": policy}),
    )
    told = evaluate(document, settings=PolicySettings(), today=TODAY, **more)
    # Such a small plan is none of our stacks (P8).
    return [(finding.check, finding.severity) for finding in told if finding.check != "P8"]


@pytest.mark.parametrize(
    "statement",
    [
        {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/host/*", **OWN_BUCKET},
        {
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{BUCKET}/clusters/*/hosts/*",
            **OWN_BUCKET,
        },
        {
            "Action": "s3:PutObject",
            "Resource": f"arn:aws:s3:::{BUCKET}/clusters/a/hosts/i-*",
            **OWN_BUCKET,
        },
        {
            "Action": ["autoscaling:TerminateInstanceInAutoScalingGroup"],
            "Resource": OWN_GROUPS,
            "Condition": {
                "StringEquals": OWN_TAG,
                "Null": {"aws:ResourceTag/terradask:cluster": "false"},
            },
        },
        {
            "Action": "logs:PutLogEvents",
            "Resource": "arn:aws:logs:us-east-1:123456789012:log-group:/terradask/blue:*",
        },
        {"Effect": "Deny", "Action": "*", "Resource": "*"},
    ],
)
def test_what_hosts_need_is_fine(statement: dict[str, Any]) -> None:
    assert _rights(statement) == []


@pytest.mark.parametrize(
    "statement",
    [
        {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*", **OWN_BUCKET},
        {
            "Action": "s3:GetObject",
            "Resource": f"arn:aws:s3:::{BUCKET}/clusters/?luster.json",
            **OWN_BUCKET,
        },
        {"Action": "s3:Get*", "Resource": f"arn:aws:s3:::{BUCKET}/host/*", **OWN_BUCKET},
        {"Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{BUCKET}/host/*", **OWN_BUCKET},
        {
            "Action": "s3:PutObject",
            "Resource": "arn:aws:s3:::terradask-red-1/clusters/*/hosts/*",
            **OWN_BUCKET,
        },
        {
            "Action": "autoscaling:TerminateInstanceInAutoScalingGroup",
            "Resource": OWN_GROUPS,
            "Condition": {"StringEquals": {**OWN_TAG, next(iter(OWN_TAG)): ["blue", "red"]}},
        },
        {"Action": "autoscaling:SetDesiredCapacity", "Resource": OWN_GROUPS},
        {"Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/host/*"},
    ],
)
def test_what_lies_only_partly_within_a_grant_is_found(statement: dict[str, Any]) -> None:
    assert _rights(statement) == [("P6", "error")]


def test_a_schedulers_rights_are_not_a_workers() -> None:
    moving = {
        "Action": "autoscaling:SetDesiredCapacity",
        "Resource": OWN_GROUPS,
        "Condition": {
            "StringEquals": OWN_TAG,
            "NumericEqualsIfExists": {"autoscaling:MinSize": "0"},
            "Null": {"autoscaling:MaxSize": "true"},
        },
    }

    assert _rights(moving, "scheduler") == []
    without = {**moving, "Condition": {"StringEquals": OWN_TAG}}
    assert _rights(without, "scheduler") == [("P6", "error")]
    assert _rights(moving, "worker") == [("P6", "error")]
    assert _rights(moving, "team") == [("P6", "error")]


def test_buckets_of_data_are_those_of_the_settings() -> None:
    using = {"Action": "s3:GetObject", "Resource": "arn:aws:s3:::lake/raw/*"}

    def told(*buckets: str) -> list[tuple[str, str]]:
        return _rights(using, workspace_rules=WorkspaceRules(data_buckets=buckets))

    assert told("lake/raw") == told("lake") == []
    assert told() == told("lake/r") == told("lake/raw/deep") == [("P6", "error")]
    # Without the settings it may be one of them.
    assert _rights(using) == [("P6", "warning")]


def test_data_to_read_is_not_written() -> None:
    key = f"arn:aws:kms:us-east-1:123456789012:key/{'0' * 8}"
    read = DataBucket(path="lake/raw", access="read", kms_key_arn=key)
    through = {"StringEquals": {"kms:ViaService": "s3.us-east-1.amazonaws.com"}}

    def told(action: str, resource: str, **more: Any) -> list[tuple[str, str]]:
        rules = WorkspaceRules(data_buckets=(read,), given=frozenset())
        statement = {"Action": action, "Resource": resource, **more}
        return _rights(statement, workspace_rules=rules)

    assert told("s3:GetObject", "arn:aws:s3:::lake/raw/*") == []
    assert told("s3:PutObject", "arn:aws:s3:::lake/raw/*") == [("P6", "error")]
    assert told("kms:Decrypt", key, Condition=through) == []
    assert told("kms:Decrypt", key) == [("P6", "error")]
    assert told("kms:GenerateDataKey", key, Condition=through) == [("P6", "error")]
    assert told("kms:Decrypt", key.replace("000", "111"), Condition=through) == [("P6", "error")]


def test_rights_of_tasks_are_those_of_the_settings() -> None:
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/prices"
    asked = TaskRight(
        reason="prices",
        actions=("dynamodb:GetItem", "dynamodb:Q*"),
        resources=(table, f"{table}/index/*"),
        conditions={"StringEquals": {"dynamodb:LeadingKeys": "a"}},
    )
    when = {"StringEquals": {"dynamodb:LeadingKeys": "a"}}

    def told(action: str, resource: str, condition: Any = when) -> list[tuple[str, str]]:
        rules = WorkspaceRules(task_rights=(asked,))
        statement = {"Action": action, "Resource": resource, "Condition": condition}
        return _rights(statement, workspace_rules=rules)

    assert told("dynamodb:GetItem", table) == told("dynamodb:Q*", f"{table}/index/*") == []
    for wider in (
        told("dynamodb:*", table),
        told("dynamodb:PutItem", table),
        told("dynamodb:GetItem", f"{table}*"),
        told("dynamodb:GetItem", table, {}),
        told("dynamodb:GetItem", table, {"StringEquals": {"dynamodb:LeadingKeys": ["a", "b"]}}),
        told("dynamodb:GetItem", table, {"StringNotEquals": {"dynamodb:LeadingKeys": "a"}}),
        # Nor without the settings: any right could be one of them.
        _rights({"Action": "dynamodb:GetItem", "Resource": table}),
    ):
        assert wider == [("P6", "error")]


def test_policies_that_are_attached_are_those_of_the_settings() -> None:
    arn = "arn:aws:iam::123456789012:policy/athena"
    attachment = "aws_iam_role_policy_attachment"

    def told(address: str, values: dict[str, Any], *, clusters: Any = None) -> list[Any]:
        rules = WorkspaceRules(task_policies=(TaskPolicy(arn=arn, clusters=clusters),))
        one = plan(resource(address, values))
        return [
            (each.check, each.severity)
            for each in evaluate(one, settings=PolicySettings(), today=TODAY, workspace_rules=rules)
            if each.check == "P6" and "attaches" in each.message
        ]

    attaching = {"role": "terradask-default-worker", "policy_arn": arn}
    assert told(f"{attachment}.worker-athena-1", attaching) == []
    assert told("aws_iam_role.worker", {"name": "x", "managed_policy_arns": [arn]}) == []
    for wrong in (
        told(f"{attachment}.worker-athena-1", attaching, clusters=("etl",)),
        told(f"{attachment}.worker-athena-1", {**attaching, "policy_arn": f"{arn}-2"}),
        told(f"{attachment}.worker-athena-1", {"role": "x"}),
        told(f"{attachment}.flow-logs", attaching),
        told("aws_iam_policy_attachment.worker-athena-1", attaching),
        told("aws_iam_user_policy_attachment.worker-athena-1", attaching),
        told("aws_iam_role.worker", {"name": "x", "managed_policy_arns": [f"{arn}-2"]}),
        told("aws_iam_role.flow-logs", {"name": "x", "managed_policy_arns": [arn]}),
    ):
        assert wrong == [("P6", "error")]


def test_images_are_of_the_settings_repositories() -> None:
    arn = "arn:aws:ecr:us-east-1:123456789012:repository/dask"
    pulling = {"Action": ["ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"], "Resource": arn}
    within = {"StringEquals": {"aws:RequestedRegion": "us-east-1"}}
    login = {"Action": "ecr:GetAuthorizationToken", "Resource": "*", "Condition": within}
    pushing = {"Action": "ecr:PutImage", "Resource": arn}

    def told(statement: Any, *names: str) -> list[tuple[str, str]]:
        known = tuple(f"123456789012.dkr.ecr.us-east-1.amazonaws.com/{name}" for name in names)
        return _rights(statement, workspace_rules=WorkspaceRules(container_repositories=known))

    assert told(pulling, "dask", "other") == told(login, "dask") == []
    for refused in (told(pulling), told(pulling, "das"), told(login), told(pushing, "dask")):
        assert set(refused) == {("P6", "error")}
    assert told({**login, "Condition": {}}, "dask") == [("P6", "error")]
    assert set(told({**pulling, "Resource": f"{arn}*"}, "dask")) == {("P6", "error")}
    # Without the settings it may be one of them.
    assert set(_rights(pulling) + _rights(login)) == {("P6", "warning")}
    assert _rights(pushing) == [("P6", "error")]


def test_write_only_arguments_and_pointers_to_secrets_are_fine() -> None:
    document = plan(
        resource(
            "aws_secretsmanager_secret_version.keys",
            {"secret_string": None, "secret_string_wo": None, "secret_string_wo_version": 1},
        ),
        resource(
            "aws_s3_object.x",
            {
                "content": json.dumps(
                    {"environ": {"DB_PASSWORD": "arn:aws:secretsmanager:us-east-1:1:secret:x"}}
                )
            },
        ),
        planned_values={"outputs": {"vpc_id": {"sensitive": False, "value": "vpc-1"}}},
    )

    assert found(document) == []


@pytest.mark.parametrize(
    "values",
    [
        {"owners": ["amazon"]},
        {"owners": ["self", "123456789012"]},
        {"owners": ["${var.owner}"]},
        {"filter": [{"name": "owner-id", "values": ["137112412989"]}]},
        {"filter": [{"name": "image-id", "values": ["ami-0123456789abcdef0"]}]},
    ],
)
def test_an_image_of_a_known_owner_is_fine(values: dict[str, Any]) -> None:
    assert (
        found({"data": {"aws_ami": {"x": {"most_recent": True, **values}}}, "terraform": {}}) == []
    )
