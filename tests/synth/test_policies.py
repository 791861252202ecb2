"""Policies that every stack keeps, and a seeded defect for each of them that must be caught.

A policy takes the synthesised JSON and returns what breaks it.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from .stack_defects import SEEDS
from .stack_policies import ALL, Document, hosts_are_hardened

VARIANTS: dict[str, dict[str, Any]] = {
    "defaults": {},
    "one NAT gateway per zone": {"nat": "per_zone"},
    "no way out but endpoints": {
        "nat": "none",
        "interface_endpoints": ["secretsmanager", "autoscaling", "ec2", "logs", "sts"],
    },
    "ARM": {"architectures": ["x86_64", "arm64"]},
    "ingress": {
        "ingress": [{"cidr": "203.0.113.7/32"}, {"cidr": "2001:db8::/56", "ports": [8786]}]
    },
    "images": {"container_repositories": ["123456789012.dkr.ecr.us-east-1.amazonaws.com/dask"]},
    "data": {"data_buckets": ["lake/raw", "results"]},
    "private, as a company prescribes": {
        "public_schedulers": False,
        "flow_logs": True,
        "dual_stack": True,
        "kms_key_arn": (
            "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
        ),
        "permissions_boundary": "arn:aws:iam::123456789012:policy/boundary",
        "role_path": "/platform/",
        "role_name_prefix": "acme-",
    },
    "a given VPC": {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnets": {
            zone: {"scheduler": "subnet-00000000", "worker": "subnet-00000001"}
            for zone in ("us-east-1a", "us-east-1b")
        },
    },
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_network_keeps_every_policy(synth: Callable[..., Document], variant: str) -> None:
    document = synth("network", network=VARIANTS[variant])

    assert {policy.__name__: policy(document) for policy in ALL} == {
        policy.__name__: [] for policy in ALL
    }


def test_a_cluster_keeps_every_policy(cluster: Document) -> None:
    assert {policy.__name__: policy(cluster) for policy in ALL} == {
        policy.__name__: [] for policy in ALL
    }


def test_public_workers_are_the_one_exception(synth: Callable[..., Document]) -> None:
    document = synth("network", network={"public_workers": True})

    assert hosts_are_hardened(document) == [
        f"worker-{size}x86_64: no public address"
        for size in (
            "1000-500mibps-",
            "1000-",
            "250-500mibps-",
            "250-",
            "500-500mibps-",
            "500-",
            "500mibps-",
            "",
        )
    ]
    assert [policy.__name__ for policy in ALL if policy(document)] == ["hosts_are_hardened"]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_seeded_defect_is_caught(network: Document, seed: str) -> None:
    policy, plant = SEEDS[seed]
    seeded = copy.deepcopy(network)
    assert policy(seeded) == []
    plant(seeded)

    assert policy(seeded) != []
