"""How a defect gets into a network's stack."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable
from email.mime.multipart import MIMEMultipart
from email.mime.text import MIMEText
from typing import Any

from .policy_forms import Document

Plant = Callable[[Document], Any]

# Made up, in the shapes of real ones, and put together here so that no scanner of this repository
# finds them.
ACCESS_KEY = "AKIA" + "ABCDEFGHIJKLMNOP"
PEM = "-----BEGIN " + "PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEIDzPZ7\n-----END " + "PRIVATE KEY-----"
CERTIFICATE = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----"
GITHUB_TOKEN = "ghp_" + "a1" * 18


def template(stack: Document, name: str = "worker-x86_64") -> Document:
    held: Document = stack["resource"]["aws_launch_template"][name]
    return held


def boots_with(content: str | bytes) -> Plant:
    raw = content.encode() if isinstance(content, str) else content
    return lambda stack: template(stack).update(user_data=base64.b64encode(raw).decode())


def tampers(part: str, **values: Any) -> Plant:
    return lambda stack: (
        template(stack)[part][0].update(values)
        if isinstance(template(stack)[part], list)
        else template(stack)[part].update(values)
    )


def admits(
    *sources: dict[str, Any], to: str = "scheduler", first: int = 8786, last: int = 8787
) -> Plant:
    def plant(stack: Document) -> None:
        for number, source in enumerate(sources):
            stack["resource"]["aws_vpc_security_group_ingress_rule"][f"seed-{number}"] = {
                "security_group_id": f"${{aws_security_group.{to}.id}}",
                "from_port": first,
                "to_port": last,
                "ip_protocol": "tcp",
                "description": "seeded",
                **source,
            }

    return plant


def lets_out(port: int = 5432, **peer: Any) -> Plant:
    rule = {"ip_protocol": "tcp", "from_port": port, "to_port": port, "description": "seeded"}
    return adds(
        "aws_vpc_security_group_egress_rule",
        security_group_id="${aws_security_group.worker.id}",
        **rule,
        **peer,
    )


def grants(**statement: Any) -> Plant:
    return lambda stack: edit_policy(
        stack["resource"]["aws_iam_role_policy"]["worker"], "policy", statement
    )


def trusts(**statement: Any) -> Plant:
    return lambda stack: edit_policy(
        stack["resource"]["aws_iam_role"]["worker"], "assume_role_policy", statement
    )


def opens_bucket(**statement: Any) -> Plant:
    return lambda stack: edit_policy(
        stack["resource"]["aws_s3_bucket_policy"]["workspace"], "policy", statement
    )


def edit_policy(held: Document, attribute: str, statement: Document) -> None:
    policy = json.loads(held[attribute])
    policy["Statement"].append({"Effect": "Allow", **statement})
    held[attribute] = json.dumps(policy)


def adds(kind: str, name: str = "seed", section: str = "resource", **values: Any) -> Plant:
    return lambda stack: stack.setdefault(section, {}).setdefault(kind, {}).update({name: values})


def outputs(**values: Any) -> Plant:
    return lambda stack: stack.setdefault("output", {}).update(seed=values)


def mime(*parts: str) -> str:
    message = MIMEMultipart()
    for part in parts:
        message.attach(MIMEText(part, "cloud-config", "utf-8"))
    return message.as_string()


def cloud_config(content: bytes, encoding: str) -> str:
    body = gzip.compress(content) if "gz" in encoding else content
    return (
        f"#cloud-config\nwrite_files:\n  - path: /etc/x\n    encoding: {encoding}\n    "
        f"content: {base64.b64encode(body).decode()}\n"
    )


BOUNDARY = "arn:aws:iam::123456789012:policy/boundary"
EVERY_GROUP = "arn:aws:autoscaling:us-east-1:123456789012:autoScalingGroup:*:autoScalingGroupName/*"
VOLUMES = "arn:aws:ec2:us-east-1:123456789012:volume/*"
OURS = {"aws:ResourceTag/terradask:workspace": "default"}
PASSED = {"StringEquals": {"iam:PassedToService": "ec2.amazonaws.com"}}
ROLE = "arn:aws:iam::123456789012:role/terradask-default-worker"
