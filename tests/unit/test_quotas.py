"""AWS's quotas against what settings can reach. No AWS is asked."""

from __future__ import annotations

import json
from typing import Any

import pytest

from terradask._catalog.quotas import check as quotas
from terradask._catalog.quotas.check import (
    QuotaCheck,
    check_network_quotas,
    check_quotas,
    request_more,
    rules_of_a_group,
)
from terradask._synthesis.resolve_cluster import named_or_default
from terradask._workspace.workspace import Workspace
from terradask.cli import run
from terradask.errors import AccessDenied, NoMatchingType, QuotaExceeded
from terradask_stacks.settings import Settings

from .quota_facts import TYPES, FakeAws

STANDARD, SPOT, GPU, GROUPS = "L-1216C47A", "L-34B43A08", "L-DB2E81BA", "L-CDE20ADC"
VCPUS = (STANDARD, SPOT, GPU)


def settings(**sections: Any) -> Settings:
    return Settings.model_validate(sections)


def default_types(given: Settings) -> quotas.GroupTypes:
    return {name: named_or_default(one) for name, one in quotas.clusters_of(given).items()}


def amounts(given: Settings, *codes: str, zones: tuple[str, ...] = ("a", "b", "c")) -> Any:
    """Return what settings need: code -> amount, of all quotas or some."""
    found = {
        need.quota.code: need.amount
        for need in quotas.needs_of(given, default_types(given), TYPES, zones)
    }
    return {code: found[code] for code in codes or found if code in found}


def found(checks: list[QuotaCheck], code: str) -> QuotaCheck:
    return next(check for check in checks if check.code == code)


def own(**fields: Any) -> dict[str, Any]:
    return {**fields, "Tags": [{"Key": "terradask:workspace", "Value": "default"}]}


# ---- what settings can reach ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("instance_type", "code"),
    [
        ("m6i.xlarge", STANDARD),
        ("t3.micro", STANDARD),
        ("im4gn.large", STANDARD),
        ("is4gen.medium", STANDARD),
        ("i4i.large", STANDARD),
        ("inf2.xlarge", "L-1945791B"),
        ("g5.xlarge", GPU),
        ("gr6.4xlarge", GPU),
        ("p5.48xlarge", "L-417A185B"),
        ("x2iedn.large", "L-7295265B"),
        ("trn1.2xlarge", "L-2C3B7624"),
        ("dl1.24xlarge", "L-6E869C2A"),
        ("d3.xlarge", STANDARD),
        ("hpc7a.48xlarge", "L-F7808C92"),
        ("h1.2xlarge", STANDARD),
        ("u-6tb1.56xlarge", "L-43DA4232"),
        ("u7i-12tb.224xlarge", "L-43DA4232"),
    ],
)
def test_quota_of_a_family(instance_type: str, code: str) -> None:
    quota = quotas.vcpu_quota(instance_type)
    assert quota is not None
    assert quota.code == code


def test_family_that_is_not_known_has_no_quota() -> None:
    assert quotas.vcpu_quota("mac2.metal") is None


def test_every_declared_cluster_counts_at_its_largest() -> None:
    given = settings(
        clusters={
            "etl": {"max_workers": 10, "worker_vm_types": ["m6i.xlarge", "m6i.8xlarge"]},
            "ml": {"max_workers": 3, "worker_vm_types": ["g5.2xlarge", "m6i.xlarge"]},
        }
    )
    # Schedulers are the default's, of 4 vCPUs; ml's workers may all become either of their types.
    assert amounts(given, *VCPUS, GROUPS) == {
        STANDARD: 4 + 10 * 32 + 4 + 3 * 4,
        GPU: 3 * 8,
        GROUPS: 4,
    }


def test_isolated_clusters_count_with_what_they_make() -> None:
    clusters = {"etl": {}, "ml": {}}
    shared = settings(clusters=clusters)
    isolated = settings(clusters=clusters, workspace={"isolation": "cluster"})
    assert amounts(shared, "L-FB451C26", "L-E79EC296") == {"L-FB451C26": 20, "L-E79EC296": 2}
    assert amounts(isolated, "L-FB451C26", "L-E79EC296") == {
        # Isolated clusters take none of the network's for larger disks.
        "L-FB451C26": 4 + 4,
        "L-E79EC296": 2 + 2 + 4,
    }
    assert amounts(isolated).keys() == amounts(shared).keys()


def test_each_market_of_a_cluster_may_have_to_give_all_its_workers() -> None:
    found = {}
    for policy in ("on-demand", "spot", "spot_with_fallback"):
        given = settings(
            clusters={
                "etl": {"max_workers": 10, "worker_vm_types": ["m6i.xlarge"], "spot_policy": policy}
            }
        )
        found[policy] = amounts(given, *VCPUS, GROUPS)
    assert found == {
        "on-demand": {STANDARD: 4 + 40, GROUPS: 2},
        "spot": {STANDARD: 4, SPOT: 40, GROUPS: 2},
        "spot_with_fallback": {STANDARD: 4 + 40, SPOT: 40, GROUPS: 3},
    }


def test_a_quota_counts_one_market() -> None:
    found = [quotas.vcpu_quota("p5.48xlarge", market) for market in ("on-demand", "spot")]
    assert [quota and quota.code for quota in found] == ["L-417A185B", "L-C4BD4855"]
    assert quotas.vcpu_quota("hpc7a.48xlarge", "spot") is None


def test_without_declared_clusters_one_counts() -> None:
    (only,) = quotas.clusters_of(settings(cluster={"max_workers": 7})).values()
    assert only.max_workers == 7


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"nat": "single"}, {"L-0263D0A3": 1, "L-FE5A380F": 1, "L-F678F1CE": 1, "L-E79EC296": 2}),
        ({"architectures": ["x86_64"]}, {"L-FB451C26": 10}),
        ({"architectures": ["x86_64"], "worker_disk_sizes_gib": []}, {"L-FB451C26": 4}),
        ({"cluster_launch_templates": True}, {"L-FB451C26": 4}),
        ({"image": "ami-0123456789abcdef0"}, {"L-FB451C26": 10}),
        (
            {"image": "ami-0123456789abcdef0", "arm64_image": "ami-0123456789abcdef1"},
            {"L-FB451C26": 20},
        ),
        ({"nat": "per_zone"}, {"L-0263D0A3": 3, "L-FE5A380F": 1}),
        (
            {"nat": "none", "interface_endpoints": ["logs"]},
            {"L-0263D0A3": 0, "L-FE5A380F": 0, "L-E79EC296": 3},
        ),
        ({"ingress": [{"cidr": f"203.0.113.{n}/32"} for n in range(70)]}, {"L-0EA8095F": 71}),
        (
            {
                "egress": [
                    {"destination": f"10.1.{n}.0/24", "ports": [22, 5432], "reason": "database"}
                    for n in range(30)
                ]
            },
            {"L-0EA8095F": 63},
        ),
    ],
)
def test_what_a_network_needs(network: dict[str, Any], expected: dict[str, int]) -> None:
    assert amounts(settings(network=network), *expected) == expected


def test_rules_for_ipv6_are_counted_apart() -> None:
    rules = [
        {"destination": destination, "ports": [5432], "reason": "database"}
        for n in range(10)
        for destination in (f"10.1.{n}.0/24", f"2001:db8:{n}::/48", f"pl-0000000{n}")
    ]
    network = {"dual_stack": True, "egress": rules}
    assert amounts(settings(network=network), "L-0EA8095F") == {"L-0EA8095F": 23}


def test_given_groups_get_no_rules() -> None:
    rule = {"destination": "10.1.0.0/16", "ports": [5432], "reason": "database"}
    subnet, group = "subnet-0123456789abcdef0", "sg-0123456789abcdef0"
    network = {
        "vpc_id": "vpc-0123456789abcdef0",
        "subnets": {"us-east-1a": {"scheduler": subnet, "worker": subnet}},
        "egress": [rule],
    }
    assert rules_of_a_group(settings(network=network).network) == 4
    network["security_groups"] = {"scheduler": group, "worker": group}
    assert rules_of_a_group(settings(network=network).network) == 3


def test_a_given_network_needs_what_is_made_on_it() -> None:
    given = settings(
        network={
            "vpc_id": "vpc-0123456789abcdef0",
            "subnets": {
                "us-east-1a": {
                    "scheduler": "subnet-0123456789abcdef0",
                    "worker": "subnet-0123456789abcdef1",
                }
            },
            "security_groups": {
                "scheduler": "sg-0123456789abcdef0",
                "worker": "sg-0123456789abcdef1",
            },
        }
    )
    # The last two are the clusters' groups and storage.
    assert amounts(given).keys() - set(VCPUS) == {"L-FB451C26", GROUPS, "L-7A658B76"}


# ---- compared with what there is -----------------------------------------------------------------


def compared(aws: Any, given: Settings) -> list[QuotaCheck]:
    return check_quotas(aws, given, default_types(given), zones=None)


def test_verdicts_count_what_others_use() -> None:
    aws = FakeAws(
        limits={STANDARD: 40.0, "L-F678F1CE": 5.0, "L-FE5A380F": 5.0, "L-0263D0A3": 5.0},
        default_limits={"L-CDE20ADC": 500.0},
        describe_instances={
            "Reservations": [
                {
                    "Instances": [
                        {"InstanceType": "c5.large"},
                        own(InstanceType="m6i.8xlarge"),
                        {"InstanceType": "c5.large"},
                    ]
                },
                {"Instances": [{"InstanceType": "m6i.8xlarge", "InstanceLifecycle": "spot"}]},
            ]
        },
        describe_vpcs={"Vpcs": [{}, {}, {}, {}, {}, own()]},
        describe_nat_gateways={
            "NatGateways": [
                {"SubnetId": "s1", "State": "available"},
                {"SubnetId": "s2", "State": "available"},
                {"SubnetId": "s3", "State": "available"},
                {"SubnetId": "s1", "State": "deleted"},
                own(SubnetId="s1", State="available"),
            ]
        },
        describe_subnets={
            "Subnets": [
                {"SubnetId": s, "AvailabilityZone": z}
                for s, z in (("s1", "a"), ("s2", "a"), ("s3", "b"))
            ]
        },
    )
    checks = compared(aws, settings(cluster={"max_workers": 8}))
    vcpus = found(checks, STANDARD)
    assert (vcpus.others, vcpus.reach, vcpus.limit, vcpus.verdict) == (4, 36, 40.0, "enough")
    assert (found(checks, "L-F678F1CE").others, found(checks, "L-F678F1CE").verdict) == (5, "short")
    assert found(checks, "L-FE5A380F").others == 2
    # A default of AWS's where nothing was ever applied; where that isn't known either, nothing is
    # claimed.
    assert (found(checks, "L-CDE20ADC").limit, found(checks, "L-FB451C26").verdict) == (
        500.0,
        "unknown",
    )
    assert "a cluster workers: 8 x m6i.xlarge" in vcpus.why


def test_unknown_type_is_refused() -> None:
    with pytest.raises(NoMatchingType, match=r"m6i\.xlrge"):
        compared(FakeAws(limits={}), settings(cluster={"worker_vm_types": ["m6i.xlrge"]}))


def check(
    limit: float | None, reach: int, requested: float | None = None, code: str = STANDARD
) -> QuotaCheck:
    return QuotaCheck("ec2", code, "vCPUs", limit, 0, reach, "why", requested)


def test_more_is_requested_up_to_what_is_needed() -> None:
    aws = FakeAws(limits={})
    asked = request_more(aws, [check(5.0, 804)])  # type: ignore[arg-type]
    assert [(one.code, one.requested) for one in asked] == [(STANDARD, 804.0)]
    assert aws.quotas.requests == [
        {"ServiceCode": "ec2", "QuotaCode": STANDARD, "DesiredValue": 804.0}
    ]


# ---- the command ---------------------------------------------------------------------------------


@pytest.fixture
def checks(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[QuotaCheck]:
    """Stand in for AWS: the workspace's checks, which a test fills."""
    monkeypatch.chdir(tmp_path)
    filled: list[QuotaCheck] = []
    monkeypatch.setattr(Workspace, "quotas", lambda _self: list(filled))
    monkeypatch.setattr(
        "terradask._catalog.quotas.check.request_more",
        lambda _aws, wanted: [check(5.0, c.reach, float(c.needed), c.code) for c in wanted],
    )
    return filled


def test_exit_code_says_whether_they_suffice(
    checks: list[QuotaCheck], capsys: pytest.CaptureFixture[str]
) -> None:
    checks += [check(1000.0, 804), check(None, 1, code=GPU)]
    assert run(["quotas"]) == 0
    assert "enough" in capsys.readouterr().out
    checks.append(check(5.0, 804))
    assert run(["quotas", "--json"]) == 8
    told = capsys.readouterr()
    assert [one["verdict"] for one in json.loads(told.out)] == ["enough", "unknown", "short"]
    error = json.loads(told.err)
    assert error["error"] == "QuotaExceeded"
    assert "too small for what the settings can reach" in error["problem"]


def test_request_succeeds_when_everything_short_is_asked_for(
    checks: list[QuotaCheck], capsys: pytest.CaptureFixture[str]
) -> None:
    checks.append(check(5.0, 804))
    assert run(["quotas", "--request", "--yes"]) == 0
    assert "requested 804" in capsys.readouterr().err
    # An open request for less can't be changed, and isn't enough.
    checks[:] = [check(5.0, 804, requested=100.0)]
    assert run(["quotas", "--request", "--yes"]) == 8
    told = capsys.readouterr().err
    assert "100 are requested already; AWS takes one request at a time" in told
    assert "nothing to request" in told


def test_request_asks_first(checks: list[QuotaCheck], monkeypatch: pytest.MonkeyPatch) -> None:
    checks.append(check(5.0, 804))
    monkeypatch.setattr("sys.stdin.isatty", lambda: False, raising=False)
    assert run(["quotas", "--request"]) == 2


def _network(creates: list[str], warned: list[str], *, rules: int = 0, **answers: Any) -> None:
    limits = {"L-F678F1CE": 5, "L-0EA8095F": 80}
    aws = FakeAws(limits=limits, default_limits={"L-0263D0A3": 5}, **answers)
    check_network_quotas(aws, creates, warned.append, rules=rules)  # type: ignore[arg-type]


def test_a_network_is_refused_what_the_account_has_no_room_for() -> None:
    gateways = [f"aws_eip.nat-us-east-1{zone}" for zone in "abc"]
    three = {"describe_addresses": {"Addresses": [{}] * 3}}
    with pytest.raises(QuotaExceeded) as caught:
        _network([*gateways, "aws_vpc.this"], [], **three, describe_vpcs={"Vpcs": [{}] * 5})
    assert [(q["code"], q["in_use"], q["needed"]) for q in caught.value.quotas] == [
        ("L-0263D0A3", 3, 3),
        ("L-F678F1CE", 5, 1),
    ]
    assert "--quota-code L-0263D0A3 --desired-value 6" in str(caught.value.advice)
    assert "network.nat = 'single'" in str(caught.value.advice)
    # As many as there is room for; and what isn't made is not asked about.
    _network(gateways[:2], [], **three)
    _network(["aws_subnet.public-us-east-1a"], [])


def test_more_rules_than_a_group_can_have_are_refused() -> None:
    _network([], [], rules=80)
    with pytest.raises(QuotaExceeded) as caught:
        _network([], [], rules=81)
    assert [(q["code"], q["needed"]) for q in caught.value.quotas] == [("L-0EA8095F", 81)]
    assert "fewer rules of network.egress" in str(caught.value.advice)


def test_without_the_permission_a_network_is_not_refused() -> None:
    def denied(**_: Any) -> Any:
        raise AccessDenied("ec2:DescribeAddresses", "no")

    warned: list[str] = []
    _network(["aws_eip.nat-us-east-1a"], warned, describe_addresses=denied)
    assert "lacks ec2:DescribeAddresses" in warned[0]


def test_the_storage_of_all_disks_counts_in_tebibytes() -> None:
    checks = compared(
        FakeAws(
            limits={"L-7A658B76": 50},
            describe_volumes={"Volumes": [{"Size": 1100}, own(Size=5000)]},
        ),
        settings(
            cluster={
                "max_workers": 100,
                "worker_disk_size": 500,
                "worker_groups": {"big": {"max_workers": 2, "disk_size": 2000}},
            },
            network={"cluster_launch_templates": True},
        ),
    )
    storage = found(checks, "L-7A658B76")
    # 50 + 100 x 500 + 2 x 2000 GiB.
    assert (storage.reach, storage.others, storage.verdict) == (53, 2, "short")
    assert "big: 2 x 2000 GiB" in storage.why
