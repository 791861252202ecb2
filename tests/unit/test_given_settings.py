"""Settings of given resources: what goes together, and what clusters on such a network
may ask for.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from terradask._synthesis.answers import _as_deployed, on_deployed_network
from terradask_modules.policies import PolicyScope, worker_policy
from terradask_modules.where import Where
from terradask_stacks.checks import check_capacity, check_egress, check_reachable
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import ClusterSettings, NetworkSettings, Settings

from .given_facts import KEY, NETWORK, SERVICES
from .test_given_resources import baseline

VPC = {key: NETWORK[key] for key in ("vpc_id", "subnets")}


@pytest.mark.parametrize(
    ("network", "says"),
    [
        ({"subnets": NETWORK["subnets"]}, "network.subnets is given without network.vpc_id"),
        (
            {"security_groups": NETWORK["security_groups"]},
            "network.security_groups is given without network.vpc_id",
        ),
        ({"vpc_id": NETWORK["vpc_id"]}, "without network.subnets"),
        (
            {**VPC, "zones": ["us-east-1a", "us-east-1b"]},
            "network.zones names us-east-1a, us-east-1b, network.subnets us-east-1a",
        ),
        ({**VPC, "nat": "none"}, "network.nat would be made in vpc-"),
        (
            {**VPC, "flow_logs": True, "dual_stack": True},
            "network.dual_stack, network.flow_logs would be made",
        ),
        ({"vpc_id": "vpc-1"}, "'vpc-1' is not the id of a VPC"),
        ({"kms_key_arn": "alias/mine"}, "is not the ARN of a KMS key"),
        (
            {"kms_key_arn": "arn:aws:kms:us-east-1:123456789012:alias/mine"},
            "is not the ARN of a KMS key",
        ),
        ({"permissions_boundary": "boundary"}, "is not the ARN of an IAM policy"),
        ({"role_path": "platform"}, "is not an IAM path"),
        ({"role_path": "/" + "x" * 600 + "/"}, "a path of 602 characters"),
        ({"role_name_prefix": "x" * 25}, "has 25 characters"),
        ({"role_name_prefix": "a b"}, "is not the beginning of a role's name"),
        (
            {
                "instance_profiles": {
                    "scheduler": "arn:aws:iam::1:instance-profile/a",
                    "worker": "b",
                }
            },
            "its name, not its ARN",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(network: dict[str, Any], says: str) -> None:
    with pytest.raises(ValidationError, match=says):
        NetworkSettings(**network)


def test_given_subnets_are_the_zones() -> None:
    settings = Settings.model_validate({"network": NETWORK, "cluster": {"zone_name": "us-east-1a"}})

    assert settings.network.zone_names == ["us-east-1a"]
    with pytest.raises(
        ValidationError, match=r"cluster.zone_name is us-east-1b, which is not in network.subnets"
    ):
        Settings.model_validate({"network": NETWORK, "cluster": {"zone_name": "us-east-1b"}})
    with pytest.raises(
        ValidationError, match=r"network.subnets names us-east-1a, outside of workspace.region"
    ):
        Settings.model_validate({"network": NETWORK, "workspace": {"region": "eu-west-1"}})


def test_a_public_address_cant_be_used_where_there_is_none() -> None:
    private, public = NetworkSettings(public_schedulers=False), NetworkSettings()
    check_reachable(public, ClusterSettings())
    check_reachable(private, ClusterSettings(use_scheduler_public_ip=False))

    with pytest.raises(SettingsError, match=r"network.public_schedulers = false") as error:
        check_reachable(private, ClusterSettings())
    assert error.value.findings[0].where == "cluster.use_scheduler_public_ip"


def test_private_schedulers_need_a_way_out_too() -> None:
    network = NetworkSettings(nat="none", public_workers=True, public_schedulers=False)

    with pytest.raises(
        SettingsError,
        match=r"schedulers could reach no AWS service.*\n[^\0]*network.public_schedulers = true",
    ):
        check_egress(network)
    check_egress(NetworkSettings(nat="none", public_schedulers=False, interface_endpoints=SERVICES))
    check_egress(NetworkSettings(**VPC))


def test_clusters_are_isolated_as_the_deployed_network_says() -> None:
    walled, shared = baseline(isolation="cluster"), baseline()

    def loaded(**workspace: str) -> Any:
        return load_settings(overrides={"workspace": workspace}, environ={})

    silent = loaded()
    assert on_deployed_network(silent, shared) is silent
    assert on_deployed_network(silent, walled).settings.workspace.isolation == "cluster"
    # So a cluster's state is encrypted as the bucket is, whatever these settings know of the key.
    for here, there in ((KEY, None), (None, KEY)):
        mine = load_settings(overrides={"network": {"kms_key_arn": here}}, environ={})
        network = on_deployed_network(mine, baseline(kms_key_arn=there)).settings.network
        assert network.kms_key_arn == there
    for said, deployed in (("workspace", walled), ("cluster", shared)):
        with pytest.raises(
            SettingsError,
            match=(
                r"workspace.isolation: the network was deployed with another value"
                r"[^\0]*terradask apply network"
            ),
        ):
            on_deployed_network(loaded(isolation=said), deployed)


def test_a_deployed_given_network_is_taken_as_it_is() -> None:
    zone = {
        "public_subnet_id": "a",
        "private_subnet_id": "b",
        "scheduler_subnet_id": "a",
        "worker_subnet_id": "b",
    }
    blocks = {"public_cidr": "10.0.0.0/28", "private_cidr": "10.0.1.0/24"}
    smaller = {**zone, **blocks, "private_cidr": "10.0.2.0/26"}
    deployed = baseline(
        given=["vpc"],
        nat="given",
        public_schedulers=False,
        zones={"us-east-1a": smaller, "us-east-1b": {**zone, **blocks}},
    )

    anywhere = _as_deployed(NetworkSettings(), deployed, None)
    check_egress(anywhere)
    check_capacity(anywhere, None, 250)
    with pytest.raises(SettingsError, match=r"the given subnet for workers is a /26"):
        check_capacity(_as_deployed(NetworkSettings(), deployed, "us-east-1a"), None, 59)
    with pytest.raises(SettingsError, match="use_scheduler_public_ip"):
        check_reachable(anywhere, ClusterSettings())


def test_hosts_use_a_customers_key_through_s3_and_secrets_alone() -> None:
    where = Where(
        partition="aws-cn", region="cn-north-1", account="123456789012", workspace="default"
    )

    assert "kms:" not in worker_policy(PolicyScope(where=where))
    policy = worker_policy(PolicyScope(where=where, kms_key_arn=KEY))
    assert '"kms:Decrypt"' in policy
    assert '"s3.cn-north-1.amazonaws.com.cn"' in policy
