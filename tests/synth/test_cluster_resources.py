"""The check of clusters' states knows exactly what their stacks make."""

from __future__ import annotations

import re
from typing import Any

import pytest

from terradask._cleanup.state_guard import DATA, expected, kinds, read_state
from terradask._terraform.program import TERRAFORM
from terradask_modules.kinds import KINDS
from terradask_modules.kinds.cluster_names import ClusterNames
from terradask_modules.where import Where

from .conftest import ACCOUNT
from .golden_settings import CLUSTERS, NETWORKS
from .golden_stacks import golden_stack


def stack(name: str) -> dict[str, Any]:
    return golden_stack(f"cluster-{name}")


def names_of(document: dict[str, Any], *, isolated: bool = True) -> ClusterNames:
    state = document["terraform"]["backend"]["s3"]
    where = Where.of_bucket(state["bucket"], state["region"])
    assert where is not None
    assert where.account == ACCOUNT
    return ClusterNames(
        where=where.of_cluster("etl"),
        role_path=f"/terradask/{where.workspace}/" if isolated else None,
        role_name_prefix="dept-",
    )


@pytest.mark.parametrize("name", sorted(CLUSTERS))
def test_everything_that_a_stack_makes_may_be_in_its_state(name: str) -> None:
    document = stack(name)
    names = names_of(document, isolated=name.startswith("isolation"))
    for kind, resources in document["resource"].items():
        for address, block in resources.items():
            patterns = expected(names, kind, address)
            assert patterns is not None, f"{kind}.{address}"
            literal = {
                key: block[key] for key in patterns.keys() & block.keys() if "${" not in block[key]
            }
            assert literal or kind.startswith(("aws_iam_", "aws_vpc_security_group_"))
            for key, value in literal.items():
                assert re.fullmatch(patterns[key], value), f"{kind}.{address}: {key} = {value}"
    assert {kind: list(found) for kind, found in document["data"].items()} == {
        kind: [address] for kind, address in DATA.items()
    }


def test_no_type_is_known_that_no_stack_makes() -> None:
    assert kinds() == {kind for name in CLUSTERS for kind in stack(name)["resource"]}


def test_types_of_isolated_clusters_are_nobody_elses() -> None:
    own = {kind for name in CLUSTERS if "isolation" in name for kind in stack(name)["resource"]}
    others = {
        kind for name in CLUSTERS if "isolation" not in name for kind in stack(name)["resource"]
    }
    shared = names_of(stack("default"), isolated=False)
    for kind in own - others:
        entry = {
            "mode": "managed",
            "type": kind,
            "name": "worker-from-worker" if "rule" in kind else "worker",
            "provider": TERRAFORM.provider_in_state,
            "instances": [{"attributes": {"id": "x"}}],
        }
        assert read_state({"resources": [entry]}, shared)[0] == []


@pytest.mark.parametrize(
    ("role", "is_known"), [("own", True), ("", True), (None, True), ("prod-admin", False)]
)
def test_a_profile_that_has_lost_its_role_is_still_the_clusters(
    role: str | None, is_known: bool
) -> None:
    names = names_of(stack("default"))
    patterns = expected(names, "aws_iam_instance_profile", "worker") or {}
    own = patterns["id"].replace("\\", "")
    attributes = {"id": own, "name": own, "role": own if role == "own" else role}
    entry = {
        "mode": "managed",
        "type": "aws_iam_instance_profile",
        "name": "worker",
        "provider": TERRAFORM.provider_in_state,
        "instances": [{"attributes": attributes}],
    }
    known, foreign = read_state({"resources": [entry]}, names)
    assert (len(known), len(foreign)) == ((1, 0) if is_known else (0, 1))


#: What goes with a resource that is a kind, which is found and deleted by that.
PARTS = {
    "aws_default_security_group": "aws_vpc",
    "aws_s3_bucket_ownership_controls": "aws_s3_bucket",
    "aws_s3_bucket_policy": "aws_s3_bucket",
    "aws_s3_bucket_public_access_block": "aws_s3_bucket",
    "aws_s3_bucket_server_side_encryption_configuration": "aws_s3_bucket",
    "aws_s3_bucket_versioning": "aws_s3_bucket",
}


def test_every_type_that_a_stack_makes_is_a_kind_or_part_of_one() -> None:
    """Else an interruption could leave one that no search finds, and no check tells."""
    stacks = [*(f"network-{name}" for name in NETWORKS), *(f"cluster-{name}" for name in CLUSTERS)]
    made = {kind for name in stacks for kind in golden_stack(name)["resource"]}
    assert made - KINDS.keys() == PARTS.keys()
    assert set(PARTS.values()) <= KINDS.keys()
