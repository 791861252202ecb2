"""The topic that schedulers' hosts tell of an end, as it stands in stacks."""

from __future__ import annotations

import base64
import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from .policy_forms import FORMS, found, rules_of

Document = dict[str, Any]

TOPIC = "arn:aws:sns:us-east-1:123456789012:dask"
KEY = "arn:aws:kms:us-east-1:123456789012:key/0123abcd-01ab-23cd-45ef-0123456789ab"
TELLS = {
    "Sid": "TellOfEnd",
    "Effect": "Allow",
    "Action": "sns:Publish",
    "Resource": TOPIC,
}
BY_KEY = {
    "Sid": "UseKeyForTopic",
    "Effect": "Allow",
    "Action": ["kms:Decrypt", "kms:GenerateDataKey"],
    "Resource": KEY,
    "Condition": {"StringEquals": {"kms:ViaService": "sns.us-east-1.amazonaws.com"}},
}


def statements(network: Document) -> dict[str, list[Document]]:
    found = network["resource"]["aws_iam_role_policy"]
    return {role: json.loads(policy["policy"])["Statement"] for role, policy in found.items()}


@pytest.mark.parametrize(
    ("more", "added"), [({}, [TELLS]), ({"kms_key_arn": KEY}, [TELLS, BY_KEY])]
)
def test_schedulers_alone_may_publish_to_this_topic_alone(
    synth: Callable[..., Document], more: Document, added: list[Document]
) -> None:
    before = statements(synth("network", network=more))
    after = statements(synth("network", network={**more, "notify_topic_arn": TOPIC}))
    assert "sns" not in json.dumps(before)
    assert after["worker"] == before["worker"]
    assert [one for one in after["scheduler"] if one not in before["scheduler"]] == added


def test_hosts_learn_of_it_by_their_user_data(synth: Callable[..., Document]) -> None:
    made = synth("network", network={"notify_topic_arn": TOPIC})["resource"]
    for template in made["aws_launch_template"].values():
        assert f'"notify_topic_arn": "{TOPIC}"' in base64.b64decode(template["user_data"]).decode()
    assert f'"notify_topic_arn" = "{TOPIC}"' in made["aws_s3_object"]["workspace"]["content"]


def test_isolated_clusters_roles_may_within_their_boundary(synth: Callable[..., Document]) -> None:
    made = synth(
        "network", workspace={"isolation": "cluster"}, network={"notify_topic_arn": TOPIC}
    )["resource"]
    content = made["aws_s3_object"]["workspace"]["content"]
    assert '"scheduler_access" = [{"Sid" = "TellOfEnd"' in content
    assert TELLS in json.loads(made["aws_iam_policy"]["boundary"]["policy"])["Statement"]


OWN = "arn:aws:sns:us-east-1:123456789012:terradask-default-ends"
EMAILS = ["ada@example.com", "bo@example.com"]


@pytest.mark.parametrize(("more", "key"), [({}, "alias/aws/sns"), ({"kms_key_arn": KEY}, KEY)])
def test_a_networks_own_topic_is_encrypted_and_closed(
    synth: Callable[..., Document], more: Document, key: str
) -> None:
    made = synth("network", network={**more, "notify_emails": EMAILS})["resource"]
    (topic,) = made["aws_sns_topic"].values()
    assert (topic["name"], topic["kms_master_key_id"]) == ("terradask-default-ends", key)
    (statement,) = json.loads(topic["policy"])["Statement"]
    assert (statement["Effect"], statement["Resource"]) == ("Deny", OWN)
    subscriptions = made["aws_sns_topic_subscription"].values()
    assert sorted(one["endpoint"] for one in subscriptions) == EMAILS
    assert {one["protocol"] for one in subscriptions} == {"email"}


def test_hosts_have_the_same_rights_on_it_as_on_one_that_is_given(
    synth: Callable[..., Document],
) -> None:
    own = statements(synth("network", network={"notify_emails": EMAILS}))
    given = statements(synth("network", network={"notify_topic_arn": OWN}))
    assert own == given
    document = synth("network", network={"notify_emails": EMAILS})["resource"]
    assert f'"notify_topic_arn" = "{OWN}"' in document["aws_s3_object"]["workspace"]["content"]
    for template in document["aws_launch_template"].values():
        assert f'"notify_topic_arn": "{OWN}"' in base64.b64decode(template["user_data"]).decode()


def test_another_address_moves_no_subscription(synth: Callable[..., Document]) -> None:
    def named(*emails: str) -> dict[str, str]:
        found = synth("network", network={"notify_emails": list(emails)})["resource"]
        return {name: one["endpoint"] for name, one in found["aws_sns_topic_subscription"].items()}

    both = named(*EMAILS)
    assert named(EMAILS[1]).items() <= both.items()
    assert named("cy@example.com", *EMAILS).items() >= both.items()


@pytest.mark.parametrize(
    ("attribute", "value"),
    [
        ("policy", None),
        ("policy", {"Effect": "Allow", "Principal": "*", "Action": "sns:Publish"}),
        ("policy", {"Effect": "Deny", "Principal": "*", "Action": "sns:DeleteTopic"}),
        ("kms_master_key_id", None),
        ("kms_master_key_id", KEY),
        ("name", "another"),
    ],
)
def test_policy_stops_one_that_is_open_or_another(
    synth: Callable[..., Document], attribute: str, value: Any
) -> None:
    settings = {"network": {"notify_emails": EMAILS}}
    stack = copy.deepcopy(synth("network", **settings))
    ours = copy.deepcopy(stack)
    topic = stack["resource"]["aws_sns_topic"]["ends"]
    if isinstance(value, dict):
        document = json.loads(topic["policy"])
        document["Statement"].append({**value, "Resource": OWN})
        topic["policy"] = json.dumps(document)
    elif value is None:
        del topic[attribute]
    else:
        topic[attribute] = value
    told = found(FORMS["planned"](stack), ours, workspace_rules=rules_of(**settings))
    assert {each.address for each in told if each.severity == "error"} == {"aws_sns_topic.ends"}


def test_policy_stops_a_subscription_that_no_setting_names(
    synth: Callable[..., Document],
) -> None:
    settings = {"network": {"notify_emails": EMAILS[:1]}}
    stack = synth("network", network={"notify_emails": EMAILS})
    ours = synth("network", **settings)
    told = found(FORMS["planned"](stack), ours, workspace_rules=rules_of(**settings))
    (finding,) = [each for each in told if each.severity == "error"]
    assert finding.address.startswith("aws_sns_topic_subscription.ends-")
