"""The rules of single settings and between them: what AWS would refuse later is refused now, with
what to change.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from terradask_host.agent.launch_documents import RESERVED_OPTIONS
from terradask_modules.errors import InvalidInput
from terradask_stacks.checks import check_capacity, check_egress
from terradask_stacks.errors import SettingsError
from terradask_stacks.lock import NetworkLock
from terradask_stacks.settings import (
    ClusterSettings,
    IngressRule,
    NetworkSettings,
    Settings,
    WorkspaceSettings,
    validate_cluster_name,
)
from terradask_stacks.validators.dask import SCHEDULER_RESERVED, WORKER_RESERVED


def test_defaults_are_valid() -> None:
    settings = Settings()

    assert settings.network.nat == "single"
    assert settings.cluster.max_workers == 200
    assert settings.network.ingress == []


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        ClusterSettings().max_workers = 3  # type: ignore[misc]


@pytest.mark.parametrize(
    ("model", "values", "says"),
    [
        (WorkspaceSettings, {"name": "Team"}, "lower-case"),
        (WorkspaceSettings, {"name": "a" * 21}, "lower-case"),
        (WorkspaceSettings, {"name": "a\n"}, "lower-case"),
        (WorkspaceSettings, {"region": "Frankfurt"}, "not an AWS region"),
        (WorkspaceSettings, {"tags": {"cost/centre": "1"}}, "no slash"),
        (WorkspaceSettings, {"tags": {"cost centre": "1"}}, "no blank"),
        (WorkspaceSettings, {"tags": {"": "1"}}, "1 to 127"),
        (WorkspaceSettings, {"tags": {"k" * 128: "1"}}, "1 to 127"),
        (WorkspaceSettings, {"tags": {"a,b": "1"}}, "no comma"),
        (WorkspaceSettings, {"tags": {"équipe": "1"}}, "of ASCII"),
        (WorkspaceSettings, {"tags": {"_index": "1"}}, "the tag key '_index'"),
        (WorkspaceSettings, {"tags": {"..": "1"}}, "the tag key '..'"),
        (WorkspaceSettings, {"tags": {"team": "a, b"}}, "IAM refuses ','"),
        (WorkspaceSettings, {"tags": {"team": "a\nb\tc"}}, r"IAM refuses '\\t', '\\n'"),
        (WorkspaceSettings, {"tags": {"team": "R&D (EU)"}}, "IAM refuses '&', .*"),
        (WorkspaceSettings, {"tags": {"Team": "a", "team": "b"}}, "differ in case alone"),
        (ClusterSettings, {"tags": {"Team": "a", "TEAM": "b"}}, "differ in case alone"),
        (WorkspaceSettings, {"tags": {"aws:owner": "1"}}, "reserved"),
        (WorkspaceSettings, {"tags": {"Terradask:role": "1"}}, "reserved"),
        (WorkspaceSettings, {"tags": {"k": "v" * 257}}, "256 at most"),
        (WorkspaceSettings, {"tags": {f"k{number}": "" for number in range(41)}}, "too many"),
        (NetworkSettings, {"cidr": "10.0.0.1/16"}, "host bits"),
        (NetworkSettings, {"cidr": "10.0.0.0/8"}, "wrong size"),
        (NetworkSettings, {"cidr": "10.0.0.0/25"}, "wrong size"),
        (NetworkSettings, {"cidr": "10.0.0.0"}, "wrong size"),
        (NetworkSettings, {"cidr": "fd00::/64"}, "not an IPv4 block"),
        (NetworkSettings, {"cidr": "169.254.0.0/16"}, "can't be used in a network"),
        (NetworkSettings, {"cidr": "224.0.0.0/16"}, "can't be used in a network"),
        (NetworkSettings, {"cidr": "10.0.0.0/20"}, "room for 0 zones"),
        (NetworkSettings, {"zones": []}, "at least 1"),
        (NetworkSettings, {"zones": ["us-east-1a", "us-east-1a"]}, "twice"),
        (
            NetworkSettings,
            {"zones": [f"us-east-1{each}" for each in "abcdefghi"]},
            "room for 8 zones",
        ),
        (NetworkSettings, {"nat": "both"}, "'single', 'per_zone' or 'none'"),
        (NetworkSettings, {"interface_endpoints": ["s3"]}, "secretsmanager"),
        (NetworkSettings, {"ingress": [{"cidr": "0.0.0.0/0"}]}, "whole internet"),
        (NetworkSettings, {"ingress": [{"cidr": "::/0"}]}, "whole internet"),
        (NetworkSettings, {"ingress": [{"cidr": "203.0.113.7/24"}]}, "host bits"),
        (NetworkSettings, {"ingress": [{"cidr": "me"}]}, "not a CIDR block"),
        (NetworkSettings, {"ingress": [{"cidr": "203.0.113.7/32", "ports": [0]}]}, "not a port"),
        (
            NetworkSettings,
            {"ingress": [{"cidr": "203.0.113.7/32", "ports": ["9-8"]}]},
            "not a port",
        ),
        (NetworkSettings, {"ingress": [{"cidr": "203.0.113.7/32", "ports": [True]}]}, "not a port"),
        (NetworkSettings, {"ingress": [{"cidr": "203.0.113.7/32", "ports": []}]}, "at least 1"),
        (
            NetworkSettings,
            {
                "ingress": [
                    {"cidr": "203.0.113.7/32"},
                    {"cidr": "203.0.113.7/32", "description": "b"},
                ]
            },
            "twice",
        ),
        (NetworkSettings, {"data_buckets": ["s3://bucket"]}, "no s3://"),
        (NetworkSettings, {"data_buckets": ["bucket/*"]}, "no \\*"),
        (NetworkSettings, {"log_retention_days": 31}, "CloudWatch"),
        (NetworkSettings, {"image": "ami-latest"}, "hexadecimal"),
        (NetworkSettings, {"architectures": []}, "at least 1"),
        (NetworkSettings, {"architectures": ["riscv"]}, "'x86_64' or 'arm64'"),
        (
            NetworkSettings,
            {"architectures": ["arm64"], "image": "ami-12345678"},
            "network.image is an image for x86_64",
        ),
        (
            NetworkSettings,
            {"architectures": ["x86_64"], "arm64_image": "ami-12345678"},
            "network.arm64_image is an image for arm64",
        ),
        (ClusterSettings, {"max_workers": 0}, "greater than or equal to 1"),
        (ClusterSettings, {"n_workers": 201}, "max_workers"),
        (ClusterSettings, {"worker_vm_types": []}, "1 to 40"),
        (ClusterSettings, {"worker_vm_types": ["xlarge"]}, "not an instance type"),
        (ClusterSettings, {"scheduler_port": 70000}, "65535"),
        (ClusterSettings, {"scheduler_port": 8787}, "both 8787"),
        (
            ClusterSettings,
            {"use_dashboard_https": True, "dashboard_https_port": 8787},
            "a different port",
        ),
        (ClusterSettings, {"worker_class": "Nanny"}, "dotted path"),
        (ClusterSettings, {"software": ["pandas=3"]}, "PEP 508"),
        (ClusterSettings, {"package_sync": ["pandas==3"]}, "not a package's name"),
        (ClusterSettings, {"package_sync_ignore": ["-r x"]}, "not a package's name"),
        (ClusterSettings, {"software": "pandas==3"}, "neither a file nor"),
        (ClusterSettings, {"software": "uv.lock", "software_lock": "uv.lock"}, "names a file"),
        (ClusterSettings, {"local_modules": True, "software_lock": "uv.lock"}, "both given"),
        (ClusterSettings, {"package_sync": True, "software": "uv.lock"}, "both given"),
        (ClusterSettings, {"package_sync": True, "software": ["pandas"]}, "both given"),
        (ClusterSettings, {"package_sync": ["s3fs"], "software_lock": "uv.lock"}, "both given"),
        (ClusterSettings, {"environ": {"1A": "x"}}, "not a variable name"),
        (ClusterSettings, {"environ": {"TERRADASK_HOST_ROOT": "/"}}, "reserved for terradask"),
        (ClusterSettings, {"wait_for_workers": 1.5}, "fraction"),
        (ClusterSettings, {"wait_for_workers": -1}, "fraction"),
        (ClusterSettings, {"wait_for_workers": "most"}, "fraction"),
        (ClusterSettings, {"create_timeout_seconds": 0}, "greater than 0"),
        (ClusterSettings, {"workers": 3}, "[Ee]xtra"),
        (ClusterSettings, {"standby": 2, "spot_policy": "spot"}, "spot_policy is spot"),
        (ClusterSettings, {"standby": -1}, "greater than or equal to 0"),
        (
            ClusterSettings,
            {"spot_policy": "spot", "worker_groups": {"big": {"standby": 1}}},
            "cluster.worker_groups.big.standby is 1, but its spot_policy is spot",
        ),
    ],
)
def test_what_aws_or_dask_would_refuse_is_refused(
    model: Any, values: dict[str, Any], says: str
) -> None:
    with pytest.raises(ValidationError, match=says):
        model(**values)


def test_tags_of_a_workspace_and_its_clusters_go_together() -> None:
    many = {f"k{number}": "" for number in range(21)}
    others = {f"c{number}": "" for number in range(21)}
    for own, clusters, says in (
        ({"Team": "a"}, {"cluster": {"tags": {"team": "b"}}}, "differ in case alone"),
        ({"Team": "a"}, {"clusters": {"etl": {"tags": {"team": "b"}}}}, "differ in case alone"),
        (many, {"cluster": {"tags": others}}, "42 tags are too many"),
    ):
        with pytest.raises(ValidationError, match=says):
            Settings.model_validate({"workspace": {"tags": own}, **clusters})
    both = {"workspace": {"tags": {"team": "a"}}, "cluster": {"tags": {"team": "b"}}}
    assert Settings.model_validate(both).cluster.tags == {"team": "b"}
    assert WorkspaceSettings(tags={"team": "Köln 東京 a+b=c/d@e:f"}).tags


@pytest.mark.parametrize("section", ["network", "state"])
def test_a_key_of_another_region_encrypts_nothing(section: str) -> None:
    there = {"kms_key_arn": "arn:aws:kms:eu-west-1:123456789012:key/k"}
    with pytest.raises(ValidationError, match="is a key of eu-west-1, and"):
        Settings.model_validate({section: there})
    Settings.model_validate({section: there, "workspace": {"region": "eu-west-1"}})


@pytest.mark.parametrize("value", [True, False, 0, 13, 0.0, 0.3, 1.0])
def test_what_to_wait_for_keeps_its_type(value: Any) -> None:
    kept = ClusterSettings(wait_for_workers=value).wait_for_workers

    assert (type(kept), kept) == (type(value), value)


@pytest.mark.parametrize(
    "name",
    ["m6i.xlarge", "g4dn.xlarge", "g5.2xlarge", "p5.48xlarge", "u-6tb1.metal", "hpc7a.96xlarge"],
)
def test_intel_and_amd_types_are_accepted(name: str) -> None:
    assert ClusterSettings(worker_vm_types=[name]).worker_vm_types == [name]


def test_one_text_is_a_list_of_one() -> None:
    settings = ClusterSettings(
        worker_vm_types="m6i.xlarge", package_sync="pandas", package_sync_ignore="numpy"
    )
    assert settings.worker_vm_types == ["m6i.xlarge"]
    assert settings.package_sync == ["pandas"]
    assert settings.package_sync_ignore == ["numpy"]


def test_loopback_is_a_networks_block_too() -> None:
    assert NetworkSettings(cidr="127.64.0.0/16").cidr == "127.64.0.0/16"


def test_ports_become_ranges() -> None:
    rule = IngressRule(ports=[443, "8786-8787"], cidr="2001:db8::/56")

    assert rule.port_ranges == [(443, 443), (8786, 8787)]


@pytest.mark.parametrize("name", ["etl", "a", "a" * 32, "nightly-2"])
def test_names_that_aws_takes(name: str) -> None:
    assert validate_cluster_name(name) == name


@pytest.mark.parametrize("name", ["network", "Etl", "1st", "a" * 33, "a_b", "", "a\n"])
def test_names_that_are_refused_say_the_rule(name: str) -> None:
    with pytest.raises(InvalidInput) as error:
        validate_cluster_name(name)
    assert error.value.given == name
    assert error.value.allowed


@pytest.mark.parametrize(
    ("name", "like"),
    [
        ("my cluster", "my-cluster"),
        ("ETL_2", "etl-2"),
        ("3d", "d"),
        ("a" * 31 + "-b", "a" * 31),
        ("42", None),
        ("Ω", None),
    ],
)
def test_a_wrong_name_gets_one_like_it(name: str, like: str | None) -> None:
    with pytest.raises(InvalidInput) as caught:
        validate_cluster_name(name)
    such = "" if like is None else f", such as {like!r}"
    assert caught.value.advice == f"choose another name{such}"
    assert like is None or validate_cluster_name(like)


def test_zones_belong_to_the_region() -> None:
    with pytest.raises(ValidationError, match="outside of workspace"):
        Settings(network=NetworkSettings(zones=["eu-central-1a"]))
    with pytest.raises(ValidationError, match="is not in network"):
        Settings(
            network=NetworkSettings(zones=["us-east-1a"]),
            cluster=ClusterSettings(zone_name="us-east-1b"),
        )


SERVICES = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"nat": "per_zone"},
        {"nat": "none", "interface_endpoints": SERVICES},
        {"nat": "none", "public_workers": True},
    ],
)
def test_clusters_need_a_way_out(values: dict[str, Any]) -> None:
    check_egress(NetworkSettings(**values))


@pytest.mark.parametrize("left_out", SERVICES)
def test_a_missing_endpoint_is_named(left_out: str) -> None:
    network = NetworkSettings(
        nat="none", interface_endpoints=[each for each in SERVICES if each != left_out]
    )

    with pytest.raises(SettingsError, match=f"no interface endpoint for {left_out}"):
        check_egress(network)


@pytest.mark.parametrize(("length", "fits"), [(20, 4091), (24, 251), (28, 11)])
def test_a_subnet_holds_the_maximum_of_workers(length: int, fits: int) -> None:
    network = NetworkSettings(private_subnet_prefix_length=length)
    lock = NetworkLock(account="123456789012", zones={"us-east-1a": 0}, image_ids={})

    check_capacity(network, lock, fits)
    with pytest.raises(
        SettingsError, match=f"network.private_subnet_prefix_length to {length - 1} or less"
    ) as error:
        check_capacity(network, None, fits + 1)
    assert error.value.findings[0].where == "cluster.max_workers"
    check_capacity(network, lock, 3 * fits, zones=3)
    with pytest.raises(SettingsError, match=f"holds {fits} workers, and there are 3 zones"):
        check_capacity(network, lock, 3 * fits + 1, zones=3)


def test_a_network_without_zones_holds_nobody() -> None:
    lock = NetworkLock(account="123456789012", zones={}, image_ids={})

    with pytest.raises(SettingsError, match="the network has no zone"):
        check_capacity(NetworkSettings(), lock, 1)


def test_public_workers_share_the_public_subnet() -> None:
    network = NetworkSettings(public_workers=True)

    check_capacity(network, None, 249)
    with pytest.raises(SettingsError, match="public_subnet_prefix_length"):
        check_capacity(network, None, 250)


@pytest.mark.parametrize(
    ("field", "options", "said"),
    [
        ("worker_options", {"name": "mine"}, "name: set by the worker's host itself"),
        (
            "scheduler_options",
            {"port": 1, "host": "x"},
            "host, port: set by the scheduler's host itself",
        ),
        ("worker_options", {"resources": {1, 2}}, "can't be sent to the hosts"),
        ("scheduler_options", {"idle_timeout": float("inf")}, "can't be sent to the hosts"),
    ],
)
def test_options_that_no_host_could_take_are_refused(
    field: str, options: dict[str, object], said: str
) -> None:
    with pytest.raises(ValueError, match=said):
        ClusterSettings(**{field: options})


def test_settings_and_hosts_reserve_the_same_options() -> None:
    assert {"scheduler": SCHEDULER_RESERVED, "worker": WORKER_RESERVED} == RESERVED_OPTIONS
