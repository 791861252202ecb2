"""A deployed network, as its clusters see it."""

from __future__ import annotations

from typing import Any

from terradask._network.baseline import Baseline

ACCOUNT = "123456789012"
REGION = "us-east-1"


def baseline(**changes: Any) -> Baseline:
    document = {
        "format": 1,
        "terradask_version": "0.1.0",
        "workspace": "default",
        "region": REGION,
        "account": ACCOUNT,
        "bucket": f"terradask-default-{ACCOUNT}-{REGION}",
        "vpc_id": "vpc-0123456789abcdef0",
        "vpc_cidr": "10.64.0.0/16",
        "zones": {},
        "templates": {
            role: {name: {"id": "lt-1", "version": "1"} for name in ("x86_64", "arm64")}
            for role in ("scheduler", "worker")
        },
        "security_groups": {},
        "instance_profiles": {
            role: f"terradask-default-{role}" for role in ("scheduler", "worker")
        },
        "roles": {
            role: f"arn:aws:iam::{ACCOUNT}:role/terradask-default-{role}"
            for role in ("scheduler", "worker")
        },
        "secrets_prefix": "terradask/default/",
        "log_group": "/terradask/default",
        "nat": "single",
        "host": {"wheel_key": "host/0a/terradask_host.whl", "wheel_sha256": "0a"},
        **changes,
    }
    return Baseline.model_validate(document)
