"""How clients reach a scheduler, as settings: what agrees, what is refused, and which rules come of
it.
"""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from terradask_modules.where import Where
from terradask_stacks.checks import check_egress, check_reachable
from terradask_stacks.errors import SettingsError
from terradask_stacks.ingress import check_ingress
from terradask_stacks.settings import ClusterSettings, NetworkSettings, WorkspaceSettings

ISOLATED = WorkspaceSettings(isolation="cluster")
HERE = "203.0.113.7/32"


@pytest.mark.parametrize(
    ("said", "way"),
    [
        ({}, "public"),
        ({"use_scheduler_public_ip": True}, "public"),
        ({"use_scheduler_public_ip": False}, "private"),
        ({"connect": "public"}, "public"),
        ({"connect": "private"}, "private"),
        ({"connect": "ssm"}, "ssm"),
        ({"connect": "public", "use_scheduler_public_ip": True}, "public"),
        ({"connect": "private", "use_scheduler_public_ip": False}, "private"),
        ({"connect": "ssm", "use_scheduler_public_ip": False}, "ssm"),
    ],
)
def test_one_way_under_either_name(said: dict[str, Any], way: str) -> None:
    assert ClusterSettings(**said).way == way


@pytest.mark.parametrize(
    "said",
    [
        {"connect": "public", "use_scheduler_public_ip": False},
        {"connect": "private", "use_scheduler_public_ip": True},
        {"connect": "ssm", "use_scheduler_public_ip": True},
    ],
)
def test_names_that_contradict_each_other(said: dict[str, Any]) -> None:
    with pytest.raises(
        ValidationError,
        match=r"cluster.connect is '\w+', but cluster.use_scheduler_public_ip is (true|false)",
    ):
        ClusterSettings(**said)


@pytest.mark.parametrize("connect", ["vpn", "", "SSM", True, 1])
def test_ways_that_there_are_not(connect: Any) -> None:
    with pytest.raises(ValidationError, match="connect"):
        ClusterSettings(connect=connect)


@pytest.mark.parametrize(
    ("sources", "said"),
    [
        ("203.0.113.7/24", "host bits"),
        ("203.0.113.256/32", "is not a CIDR block"),
        ("203.0.113.0/33", "is not a CIDR block"),
        ("office", "is not a CIDR block"),
        ("", "is not a CIDR block"),
        (["203.0.113.7/32", "x"], "'x' is not a CIDR block"),
        (["203.0.113.7/32", "203.0.113.7"], "is given twice"),
        ("me", "another address on every machine"),
        ([HERE, "me"], "another address on every machine"),
        ("everyone", "is not an address block"),
        (7, "is not an address block"),
        ([7], "is not an address block"),
        ({"cidr": HERE}, "is not an address block"),
    ],
)
@pytest.mark.parametrize("setting", ["allow_ingress_from", "allow_ssh_from"])
def test_sources_that_are_none(setting: str, sources: Any, said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        ClusterSettings(**{"allow_ssh": True, "allow_ingress_from": HERE, setting: sources})


def opened(**said: Any) -> list[tuple[list[int | str], str]] | None:
    rules = ClusterSettings(**said).own_ingress
    return None if rules is None else [(rule.ports, rule.cidr) for rule in rules]


def test_sources_become_rules_of_the_clusters_own_ports() -> None:
    assert opened() is None
    assert opened(allow_ingress_from=[]) == []
    assert opened(allow_ingress_from="203.0.113.7") == [(["8786-8787"], HERE)]
    both = opened(allow_ingress_from=["2001:db8::/56", HERE], scheduler_port=9000)
    assert both == [
        ([8787, 9000], "2001:db8::/56"),
        ([8787, 9000], HERE),
    ]
    assert opened(ingress=[{"cidr": HERE, "ports": [22, "8000-9000"]}]) == [
        ([22, "8000-9000"], HERE)
    ]


def test_ssh_is_opened_where_it_is_asked_for_alone() -> None:
    for said, rules in (
        ({"allow_ingress_from": HERE}, [(["8786-8787"], HERE)]),
        ({"allow_ingress_from": [], "allow_ssh_from": HERE}, []),
        ({"allow_ssh_from": HERE}, None),
    ):
        assert opened(**said, allow_ssh=True) == rules
        (ssh,) = ClusterSettings(**said, allow_ssh=True).ssh_ingress
        assert (ssh.ports, ssh.cidr) == ([22], HERE)
    assert ClusterSettings(allow_ingress_from=HERE).ssh_ingress == []
    for said, problem in (
        ({"allow_ssh": True}, "no setting says from where"),
        ({"allow_ssh_from": HERE}, "without cluster.allow_ssh"),
        ({"allow_ssh": True, "allow_ingress_from": []}, "no setting says from where"),
    ):
        with pytest.raises(ValidationError, match=problem):
            ClusterSettings(**said)


def test_rules_are_said_once() -> None:
    with pytest.raises(ValidationError, match="are both given"):
        ClusterSettings(ingress=[{"cidr": HERE}], allow_ingress_from=HERE)


def test_the_whole_internet_takes_a_setting_that_says_so() -> None:
    anywhere: list[Any] = [{"cidr": "0.0.0.0/0"}, {"cidr": "::/0"}]
    for rule in anywhere:
        with pytest.raises(ValidationError, match="the whole internet"):
            NetworkSettings(ingress=[rule])
        cluster = ClusterSettings(ingress=[rule])
        with pytest.raises(SettingsError, match=r"network\.allow_ingress_from_anywhere = true"):
            check_ingress(ISOLATED, NetworkSettings(), cluster)
        check_ingress(ISOLATED, NetworkSettings(allow_ingress_from_anywhere=True), cluster)
        # A network that all share has to let it in itself.
        with pytest.raises(SettingsError, match="share their security groups"):
            check_ingress(
                WorkspaceSettings(), NetworkSettings(allow_ingress_from_anywhere=True), cluster
            )
    open_network = NetworkSettings(ingress=anywhere, allow_ingress_from_anywhere=True)
    check_ingress(
        WorkspaceSettings(), open_network, ClusterSettings(allow_ingress_from="0.0.0.0/0")
    )


def test_sources_are_held_against_the_network_under_their_own_name() -> None:
    cluster = ClusterSettings(allow_ingress_from=HERE)
    check_ingress(
        WorkspaceSettings(), NetworkSettings(ingress=[{"cidr": "203.0.113.0/24"}]), cluster
    )  # type: ignore[list-item]
    with pytest.raises(SettingsError, match=r"8786-8787 from 203\.0\.113\.7/32") as caught:
        check_ingress(WorkspaceSettings(), NetworkSettings(), cluster)
    assert caught.value.findings[0].where == "cluster.allow_ingress_from"
    assert "session_manager" in str(caught.value)


def test_ways_that_the_network_lacks() -> None:
    with pytest.raises(SettingsError, match=r"network\.session_manager = false"):
        check_reachable(NetworkSettings(), ClusterSettings(connect="ssm"))
    check_reachable(
        NetworkSettings(session_manager=True, public_schedulers=False),
        ClusterSettings(connect="ssm"),
    )
    check_reachable(NetworkSettings(public_schedulers=False), ClusterSettings(connect="private"))
    with pytest.raises(SettingsError, match="only private addresses") as caught:
        check_reachable(NetworkSettings(public_schedulers=False), ClusterSettings(connect="public"))
    assert caught.value.findings[0].where == "cluster.connect"


def test_session_manager_takes_endpoints_of_its_own_without_a_way_out() -> None:
    five = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]
    closed: dict[str, Any] = {
        "nat": "none",
        "public_schedulers": False,
        "interface_endpoints": five,
    }
    check_egress(NetworkSettings(**closed))
    with pytest.raises(SettingsError, match="no interface endpoint for ssm, ssmmessages"):
        check_egress(NetworkSettings(**closed, session_manager=True))
    check_egress(
        NetworkSettings(
            **{**closed, "interface_endpoints": [*five, "ssm", "ssmmessages"]}, session_manager=True
        )
    )


def test_a_topic_takes_an_endpoint_of_its_own_without_a_way_out() -> None:
    five = ["secretsmanager", "autoscaling", "ec2", "logs", "sts"]
    closed: dict[str, Any] = {
        "nat": "none",
        "public_schedulers": False,
        "notify_topic_arn": "arn:aws:sns:us-east-1:123456789012:dask",
    }
    with pytest.raises(SettingsError, match="no interface endpoint for sns"):
        check_egress(NetworkSettings(**closed, interface_endpoints=five))
    check_egress(NetworkSettings(**closed, interface_endpoints=[*five, "sns"]))


TOPIC = "arn:aws:sns:us-east-1:123456789012:dask"


def test_addresses_are_told_by_a_topic_of_the_networks_own() -> None:
    where = Where(partition="aws", region="us-east-1", account="123456789012", workspace="team")
    told = NetworkSettings(notify_emails=["ada@example.com"])
    assert told.notifies
    assert (
        told.hosts(where).notify_topic_arn
        == "arn:aws:sns:us-east-1:123456789012:terradask-team-ends"
    )
    assert NetworkSettings(notify_topic_arn=TOPIC).hosts(where).notify_topic_arn == TOPIC
    assert not NetworkSettings().notifies
    assert NetworkSettings().hosts(where).notify_topic_arn is None
    with pytest.raises(ValueError, match="are both set"):
        NetworkSettings(notify_emails=["ada@example.com"], notify_topic_arn=TOPIC)
    with pytest.raises(ValueError, match="given twice"):
        NetworkSettings(notify_emails=["ada@example.com", "ada@example.com"])


@pytest.mark.parametrize(
    "address", ["ada", "ada@", "@example.com", "a b@example.com", "a@b", "a\n@b.c"]
)
def test_only_an_address_of_a_mailbox_is_taken(address: str) -> None:
    with pytest.raises(ValueError, match="is not an e-mail address"):
        NetworkSettings(notify_emails=[address])


@pytest.mark.parametrize(
    "arn",
    [
        "dask",
        "arn:aws:sns:us-east-1:123456789012:dask.fifo",
        "arn:aws:sns:us-east-1:123456789012:*",
        "arn:aws:sqs:us-east-1:123456789012:dask",
    ],
)
def test_only_a_standard_topic_is_taken(arn: str) -> None:
    with pytest.raises(ValueError, match="is not the ARN of an SNS topic"):
        NetworkSettings(notify_topic_arn=arn)


def test_workers_of_an_isolated_cluster_reach_its_own_port() -> None:
    assert ClusterSettings().ports_for_workers == (8786, 8787)
    assert ClusterSettings(scheduler_port=8787, dashboard_port=8786).ports_for_workers == (
        8786,
        8787,
    )
    assert ClusterSettings(scheduler_port=9000).ports_for_workers == (9000, 9000)


def test_a_rule_that_is_refused_is_named_as_it_was_given() -> None:
    office = "203.0.113.0/24"
    for said, where in (
        ({"allow_ssh": True, "allow_ssh_from": HERE}, "cluster.allow_ssh"),
        ({"allow_ingress_from": HERE}, "cluster.allow_ingress_from"),
        ({"ingress": [{"ports": [8786], "cidr": office}]}, "cluster.ingress"),
    ):
        with pytest.raises(SettingsError) as caught:
            check_ingress(WorkspaceSettings(), NetworkSettings(), ClusterSettings(**said))
        assert [each.where for each in caught.value.findings] == [where]
