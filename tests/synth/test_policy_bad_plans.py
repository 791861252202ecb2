"""Bad plans that a reviewer invented are found, each in the stack and in a plan of it."""

from __future__ import annotations

import copy

import pytest

from .bad_plans import BAD_PLANS, DER, JWT
from .planting import adds
from .policy_forms import FORMS, Document, found


@pytest.mark.parametrize("name", BAD_PLANS)
def test_a_bad_plan_is_refused(network: Document, name: str) -> None:
    seeded = copy.deepcopy(network)
    BAD_PLANS[name](seeded)

    for form, written in FORMS.items():
        told = found(written(seeded), network)
        assert any(finding.blocking for finding in told), form
        assert not any(secret in str(told) for secret in (JWT, DER.hex(), "hunter2")), form


def test_there_are_as_many_as_the_reviewer_had() -> None:
    assert len(BAD_PLANS) >= 65


@pytest.mark.parametrize("name", ["a JSON web token in an object", "a key in DER in an object"])
def test_secrets_are_found_wherever_they_are(network: Document, name: str) -> None:
    seeded = copy.deepcopy(network)
    BAD_PLANS[name](seeded)

    assert "P5" in {finding.check for finding in found(seeded, network)}


def test_addresses_of_one_owner_are_let_in(network: Document) -> None:
    """What the limits leave: an owner's widest block, and private ones, are no finding of P2."""
    seeded = copy.deepcopy(network)
    for number, block in enumerate(("3.0.0.0/8", "10.0.0.0/8", "172.16.0.0/12")):
        adds(
            "aws_vpc_security_group_ingress_rule",
            name=f"seed-{number}",
            security_group_id="${aws_security_group.scheduler.id}",
            cidr_ipv4=block,
            from_port=8786,
            to_port=8787,
            ip_protocol="tcp",
        )(seeded)

    assert "P2" not in {finding.check for finding in found(seeded, network)}
