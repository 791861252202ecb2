"""Defects for each check of policy, and how each is planted into the network."""

from __future__ import annotations

import base64
import gzip
import json

from .planted_beyond import BEYOND
from .planted_role_defects import ROLE_DEFECTS
from .planting import (
    ACCESS_KEY,
    CERTIFICATE,
    GITHUB_TOKEN,
    PEM,
    Plant,
    adds,
    admits,
    boots_with,
    cloud_config,
    lets_out,
    mime,
    outputs,
    tampers,
    template,
)

#: What each check must find: check -> defect -> how it is planted into the network.
SEEDS: dict[str, dict[str, Plant]] = {
    "P1": {
        "an access key": boots_with(f"export KEY={ACCESS_KEY}"),
        "a private key": boots_with(f"#!/bin/sh\ncat > /etc/k <<E\n{PEM}\nE\n"),
        "a certificate": boots_with(CERTIFICATE),
        "a private key, compressed": boots_with(gzip.compress(PEM.encode())),
        "a private key in a MIME part": boots_with(mime("#cloud-config\n", PEM)),
        "a private key in a compressed MIME message": boots_with(gzip.compress(mime(PEM).encode())),
        "a private key in a cloud-config's base64": boots_with(cloud_config(PEM.encode(), "b64")),
        "a private key in a cloud-config's gzip": boots_with(cloud_config(PEM.encode(), "gz+b64")),
        "a password in the extra bootstrap": boots_with(
            "#!/bin/sh\nexport DB_PASSWORD=correct-horse\n"
        ),
        "a token in a YAML environment": boots_with(
            "#cloud-config\nenv:\n  api_token: abcdef123456\n"
        ),
        "a password in an index's address": boots_with(
            "pip install -i https://me:hunter2hunter2@index.example.org/simple x"
        ),
        "a token of GitHub": boots_with(f"git clone https://{GITHUB_TOKEN}@github.com/a/b"),
        "dask-cloudprovider's configuration": boots_with("export DASK_INTERNAL_INHERIT_CONFIG=abc"),
        "dask-cloudprovider's key": boots_with(
            "distributed:\n  comm:\n    tls:\n      tls-key: x\n"
        ),
        "one byte too many": boots_with("#" * 16_385),
        "a private key in an instance's own": adds(
            "aws_instance", user_data=f"#!/bin/sh\necho '{PEM}'"
        ),
        "a private key in a launch configuration": adds(
            "aws_launch_configuration",
            user_data_base64=base64.b64encode(gzip.compress(PEM.encode())).decode(),
        ),
        "an access key, compressed and encoded in a script": boots_with(
            f"#!/bin/sh\necho {base64.b64encode(gzip.compress(ACCESS_KEY.encode())).decode()} "
            "| "
            "base64 -d | gunzip"
        ),
        "damaged compression": boots_with(b"\x1f\x8b" + b"x" * 40),
    },
    "P2": {
        "everybody": admits({"cidr_ipv4": "0.0.0.0/0"}),
        "the dashboard to everybody": admits({"cidr_ipv4": "0.0.0.0/0"}, first=8787),
        "one port of many to everybody": admits({"cidr_ipv4": "0.0.0.0/0"}, first=443, last=443),
        "every protocol to everybody": admits(
            {"cidr_ipv4": "0.0.0.0/0", "ip_protocol": "-1", "from_port": None, "to_port": None}
        ),
        "everybody of IPv6": admits({"cidr_ipv6": "::/0"}),
        "everybody, in two halves": admits(
            {"cidr_ipv4": "0.0.0.0/1"}, {"cidr_ipv4": "128.0.0.0/1"}
        ),
        "half of everybody": admits({"cidr_ipv4": "128.0.0.0/1"}),
        "everybody of IPv6, in two halves": admits(
            {"cidr_ipv6": "::/1"}, {"cidr_ipv6": "8000::/1"}
        ),
        "all that is routed of IPv6": admits({"cidr_ipv6": "2000::/3"}),
        "half of everybody, in 128 pieces": admits(
            *({"cidr_ipv4": f"{first}.0.0.0/8"} for first in range(128))
        ),
        "everybody, written into the group": lambda stack: stack["resource"]["aws_security_group"][
            "scheduler"
        ].update(
            ingress=[
                {
                    "from_port": 8786,
                    "to_port": 8787,
                    "protocol": "tcp",
                    "cidr_blocks": ["0.0.0.0/0"],
                }
            ]
        ),
        "everybody, in the older rule": adds(
            "aws_security_group_rule",
            type="ingress",
            from_port=8786,
            to_port=8787,
            protocol="tcp",
            ipv6_cidr_blocks=["::/0"],
            security_group_id="${aws_security_group.scheduler.id}",
        ),
        "everybody, in the default group": lambda stack: stack["resource"][
            "aws_default_security_group"
        ]["this"].update(
            ingress=[{"from_port": 0, "to_port": 0, "protocol": "-1", "cidr_blocks": ["0.0.0.0/0"]}]
        ),
        "everybody, in a prefix list": adds(
            "aws_ec2_managed_prefix_list", entry=[{"cidr": "0.0.0.0/0"}]
        ),
        "whoever a prefix list names": admits({"prefix_list_id": "pl-0123456789abcdef0"}),
        "egress to a peered network": lets_out(cidr_ipv4="10.1.0.0/16"),
        "egress to a group that the settings don't name": lets_out(
            referenced_security_group_id="sg-0123456789abcdefa"
        ),
        "egress to a prefix list that the settings don't name": lets_out(
            prefix_list_id="pl-0123456789abcdef0"
        ),
        "egress to a destination known only after the apply": lets_out(
            cidr_ipv4="${data.http.me.body}/32"
        ),
        "sources known only after the apply": admits({"cidr_ipv4": "${data.http.me.body}/32"}),
    },
    "P3": {
        "IMDSv1": tampers("metadata_options", http_tokens="optional"),
        "IMDSv1, by leaving it out": lambda stack: template(stack).pop("metadata_options"),
        "IMDSv1 on schedulers": lambda stack: template(stack, "scheduler-x86_64")[
            "metadata_options"
        ].update(http_tokens="optional"),
        "two hops": tampers("metadata_options", http_put_response_hop_limit=2),
        "a disk in the clear": lambda stack: template(stack)["block_device_mappings"][0][
            "ebs"
        ].update(encrypted="false"),
        "a disk that doesn't say": lambda stack: template(stack)["block_device_mappings"][0][
            "ebs"
        ].pop("encrypted"),
        "a second disk in the clear": lambda stack: template(stack)["block_device_mappings"].append(
            {"device_name": "/dev/sdb", "ebs": {"encrypted": False}}
        ),
        "the image's own disk": lambda stack: template(stack).pop("block_device_mappings"),
        "a worker with a public address": tampers(
            "network_interfaces", associate_public_ip_address="true"
        ),
        "a subnet's choice of address": lambda stack: template(stack)["network_interfaces"][0].pop(
            "associate_public_ip_address"
        ),
        "a stopped host that stays": lambda stack: template(stack).update(
            instance_initiated_shutdown_behavior="stop"
        ),
        "a stopped host, by default": lambda stack: template(stack).pop(
            "instance_initiated_shutdown_behavior"
        ),
        "metadata that doesn't count its hops": lambda stack: template(stack)[
            "metadata_options"
        ].pop("http_put_response_hop_limit"),
        "a disk that only the apply will tell": lambda stack: template(stack)[
            "block_device_mappings"
        ][0]["ebs"].update(encrypted="${data.http.x.body}"),
        "a machine without a template": adds(
            "aws_instance", ami="ami-12c6146b", instance_type="m6i.large"
        ),
        "a spot machine without a template": adds("aws_spot_instance_request", ami="ami-12c6146b"),
        "a launch configuration": adds("aws_launch_configuration", image_id="ami-12c6146b"),
        "an instance without tags": lambda stack: template(stack)["tag_specifications"].pop(0),
        "a volume without tags": lambda stack: template(stack)["tag_specifications"].pop(1),
        "an interface without tags": lambda stack: template(stack)["tag_specifications"].pop(2),
    },
    "P4": {
        "workers reached from an office": admits({"cidr_ipv4": "203.0.113.7/32"}, to="worker"),
        "workers reached from the whole network": admits(
            {"cidr_ipv4": "10.64.0.0/16"}, to="worker", first=0, last=65535
        ),
        "workers reached from a foreign group": admits(
            {"referenced_security_group_id": "sg-0123456789abcdef0"}, to="worker"
        ),
        "workers reached through a prefix list": admits(
            {"prefix_list_id": "pl-0123456789abcdef0"}, to="worker"
        ),
        "workers under another name": lambda stack: (
            stack["resource"]["aws_security_group"].update(
                hosts={"name": "hosts", "description": "x", "vpc_id": "vpc-1"}
            ),
            template(stack)["network_interfaces"][0].update(
                security_groups=["${aws_security_group.hosts.id}"]
            ),
            admits({"cidr_ipv4": "203.0.113.7/32"}, to="hosts")(stack),
        ),
        "SSH": admits({"cidr_ipv4": "203.0.113.7/32"}, first=22, last=22),
        "SSH among others": admits({"cidr_ipv4": "203.0.113.7/32"}, first=20, last=8787),
        "SSH by every protocol": admits(
            {"cidr_ipv4": "203.0.113.7/32", "ip_protocol": "-1", "from_port": None, "to_port": None}
        ),
        "SSH from a foreign group": admits(
            {"referenced_security_group_id": "sg-0123456789abcdef0"}, first=22, last=22
        ),
        "a key for SSH": lambda stack: template(stack).update(key_name="me"),
        "a key for SSH from elsewhere": lambda stack: template(stack).update(
            key_name="${aws_key_pair.me.key_name}"
        ),
    },
    "P5": {
        "a secret with its value": adds(
            "aws_secretsmanager_secret_version", secret_id="x", secret_string="{}x"
        ),
        "a secret with a value from elsewhere": adds(
            "aws_secretsmanager_secret_version",
            secret_string="${tls_private_key.ca.private_key_pem}",
        ),
        "a parameter with its value": adds("aws_ssm_parameter", type="SecureString", value="x"),
        "a key made by Terraform": adds("tls_private_key", algorithm="RSA", private_key_pem="${x}"),
        "a password by its name": adds("aws_db_instance", password="correct-horse"),
        "an access key in a description": adds("aws_vpc", description=f"use {ACCESS_KEY}"),
        "a private key in an object": adds("aws_s3_object", content=PEM),
        "a private key in an encoded object": adds(
            "aws_s3_object", content_base64=base64.b64encode(PEM.encode()).decode()
        ),
        "a password in an object's JSON": adds(
            "aws_s3_object",
            content=json.dumps({"settings": {"environ": {"DB_PASSWORD": "correct-horse"}}}),
        ),
        "a password in a tag": lambda stack: template(stack).update(
            tags={"db_password": "correct-horse"}
        ),
        "a password in an index's address": adds(
            "aws_s3_object",
            content="--index-url https://me:hunter2hunter2@index.example.org/simple",
        ),
        "a sensitive output": outputs(value="x", sensitive=True),
        "an output with a key": outputs(value=ACCESS_KEY),
        "an output with a password": lambda stack: stack.update(
            output={"db_password": {"value": "correct-horse"}}
        ),
        "a secret that is read": adds(
            "aws_secretsmanager_secret_version", section="data", secret_id="terradask/default/etl"
        ),
        "a parameter that is read": adds(
            "aws_ssm_parameter", section="data", name="/team/password"
        ),
        "the provider's own key": lambda stack: stack["provider"]["aws"][0].update(
            secret_key="x" * 40
        ),
    },
    "P6": ROLE_DEFECTS,
    "P7": {
        "an image of any owner": adds(
            "aws_ami",
            section="data",
            most_recent=True,
            filter=[{"name": "name", "values": ["al2023-*"]}],
        ),
        "images of any owner": adds("aws_ami_ids", section="data", owners=[]),
        "an image of an owner by pattern": adds(
            "aws_ami",
            section="data",
            most_recent=True,
            filter=[{"name": "owner-id", "values": ["*"]}],
        ),
        "an image that a page names": lambda stack: template(stack).update(
            image_id="${data.http.image.body}"
        ),
    },
    "P8": BEYOND,
}

#: What the plan alone doesn't prove, or what a setting allows: it is told, and stops nothing.
TOLD_ONLY = {
    "whoever a prefix list names",
    "sources known only after the apply",
    "egress to a destination known only after the apply",
    "a worker with a public address",
    "a policy that only the apply will tell",
    "an image that a page names",
}
