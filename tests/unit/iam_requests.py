"""Requests in AWS's protocols, a small world of resources, and the permissions that the one needs
in the other.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from terradask_simulator.aws.iam import reference
from terradask_simulator.aws.iam.mapping import context_of, needs_of
from terradask_simulator.aws.iam.operation import read_operation
from terradask_simulator.aws.iam.world import TemplateData

ACCOUNT, REGION = "123456789012", "us-east-1"
EC2 = f"arn:aws:ec2:{REGION}:{ACCOUNT}:"


@dataclass
class SmallWorld:
    """Resources as a test names them."""

    tags: dict[str, dict[str, str]] = field(default_factory=dict)
    groups: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    members: dict[str, str] = field(default_factory=dict)
    templates: dict[str, dict[str, Any]] = field(default_factory=dict)
    secrets: dict[str, tuple[str, dict[str, str]]] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    key: str = ""
    service_roles: bool = True
    partition: str = "aws"
    account: str = ACCOUNT
    region: str = REGION

    def ec2_tags(self, resource_id):
        return self.tags.get(resource_id, {})

    def vpc_of(self, resource_id):
        return "vpc-1" if resource_id.startswith(("subnet-", "sg-")) else ""

    def related(self, resource_id):
        return {"rtbassoc-1": ("rtb-1", "subnet-1"), "sgr-1": ("sg-1",)}.get(resource_id, ())

    def template(self, name_or_id, version):
        return (
            TemplateData(name_or_id, self.templates[name_or_id])
            if name_or_id in self.templates
            else None
        )

    def template_id(self, name):
        return "lt-1" if name == "host" else ""

    def group(self, name):
        return self.groups.get(name)

    def group_of_instance(self, instance_id):
        return self.members.get(instance_id, "")

    def secret(self, name_or_arn):
        return self.secrets.get(name_or_arn)

    def identity(self, kind, name):
        there = name.startswith(("there", *(("AWSServiceRole",) if self.service_roles else ())))
        return (f"arn:aws:iam::{ACCOUNT}:{kind}/{name}", {}) if there else None

    def role_of_profile(self, name_or_arn):
        return f"arn:aws:iam::{ACCOUNT}:role/{name_or_arn.rpartition('/')[2]}"

    def boundary_of(self, kind, name):
        return "arn:aws:iam::123456789012:policy/edge" if name == "there-bounded" else ""

    def resource_policy(self, action, resource):
        return None

    def key_of(self, resource, named, *, new):
        return self.key

    def session_tags(self, session_id):
        return {"aws:ssmmessages:session-id": "AROA1:me"}

    def log_group_tags(self, name):
        return {"terradask:workspace": "a"}

    def has_object(self, bucket, key):
        return f"{bucket}/{key}" in self.objects


def signed(service, **environ):
    header = (
        f"AWS4-HMAC-SHA256 Credential=AKIA/20261120/{REGION}/{service}/aws4_request, "
        "SignedHeaders=host, Signature=0"
    )
    return {
        "REQUEST_METHOD": "POST",
        "PATH_INFO": "/",
        "QUERY_STRING": "",
        "HTTP_AUTHORIZATION": header,
        **environ,
    }


def query(service, action, **parameters):
    body = urlencode(
        {"Action": action, **{name.replace("__", "."): value for name, value in parameters.items()}}
    ).encode()
    return read_operation(
        signed(service, CONTENT_TYPE="application/x-www-form-urlencoded; charset=utf-8"), body
    )


def call(service, target, **parameters):
    return read_operation(
        signed(service, HTTP_X_AMZ_TARGET=f"X.{target}"), json.dumps(parameters).encode()
    )


def rest(method, path, string="", body=b"", **headers):
    more = {f"HTTP_{name.upper()}": value for name, value in headers.items()}
    return read_operation(
        signed("s3", REQUEST_METHOD=method, PATH_INFO=path, QUERY_STRING=string, **more), body
    )


def asked(operation, world=None):
    """Return pairs of action and resource, short, and assert that AWS knows each action."""
    needs = needs_of(operation, world or SmallWorld())
    assert [need.action for need in needs if not reference.is_known(need.action)] == []
    return sorted((need.action, need.resource.replace(EC2, "")) for need in needs)


def context(operation, world=None, number=0):
    return context_of(needs_of(operation, world or SmallWorld())[number], {})
