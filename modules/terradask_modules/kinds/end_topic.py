"""The topic of SNS that schedulers' hosts tell of an end: what they may do, and the one that the
network makes, with its subscriptions. Pure.
"""

from __future__ import annotations

from terradask_modules.iam import Statement, allow, policy_text, statement
from terradask_modules.kinds.kind import FREE, Access, Charge, Deletion, Named, ResourceKind
from terradask_modules.names import resource_name
from terradask_modules.partitions import dns_suffix
from terradask_modules.where import Where

#: The action of schedulers' hosts on it.
PUBLISH = "sns:Publish"
#: In its name, and in its address.
NAME = "ends"
#: AWS (documented): Publishing to an SNS topic with a customer's KMS key takes kms:Decrypt and
#: kms:GenerateDataKey on it.
#: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
_KEY_ACTIONS = ["kms:Decrypt", "kms:GenerateDataKey"]


def topic_name(where: Where) -> str:
    """Return the topic's name."""
    return resource_name(where.workspace, NAME)


def made_topic_arn(where: Where) -> str:
    """Return the topic's ARN."""
    return where.arn("sns", topic_name(where))


def topic_policy(where: Where) -> str:
    """Return the document that refuses messages without TLS, and allows nothing: IAM decides who
    publishes and subscribes. Without it SNS would let all of the account do so.
    """
    return policy_text(
        [
            statement(
                "Deny",
                PUBLISH,
                sid="TlsOnly",
                principal="*",
                resource=made_topic_arn(where),
                condition={"Bool": {"aws:SecureTransport": "false"}},
            )
        ]
    )


def via_sns(topic_arn: str) -> str:
    """Return the name by which KMS knows that a key is used for a topic."""
    _, partition, _, region, *_ = topic_arn.split(":")
    return f"sns.{region}.{dns_suffix(partition)}"


def notice_statements(topic_arn: str | None, kms_key_arn: str | None) -> list[Statement]:
    """Return the right to publish to one topic, also where the customer's key encrypts it."""
    if topic_arn is None:
        return []
    publish = allow("TellOfEnd", PUBLISH, topic_arn)
    if kms_key_arn is None:
        return [publish]
    through = {"StringEquals": {"kms:ViaService": via_sns(topic_arn)}}
    return [publish, allow("UseKeyForTopic", _KEY_ACTIONS, kms_key_arn, through)]


TOPIC = ResourceKind(
    "aws_sns_topic",
    service="sns",
    find=Named(
        "list_tags_for_resource",
        "ResourceArn",
        "Tags",
        "arn:{partition}:sns:{region}:{account}:{name}",
    ),
    delete=Deletion("delete_topic", "TopicArn"),
    adopt="named",
    access=Access(
        see=("SeeTopic", ("sns:GetTopicAttributes", "sns:ListTagsForResource")),
        keep=(
            "KeepTopic",
            (
                "sns:CreateTopic",
                "sns:DeleteTopic",
                "sns:SetTopicAttributes",
                "sns:Subscribe",
                "sns:TagResource",
                "sns:UntagResource",
            ),
        ),
        arn=made_topic_arn,
    ),
    setting="notify_emails",
    names=lambda where, _: {NAME: topic_name(where)},
    policy=topic_policy,
    price=Charge("messages of ends", "by the message and mail"),
)
SUBSCRIPTION = ResourceKind(
    "aws_sns_topic_subscription",
    after=("aws_sns_topic",),
    access=Access(
        see=("SeeSubscriptions", ("sns:GetSubscriptionAttributes",)),
        keep=("EndSubscriptions", ("sns:Unsubscribe",)),
    ),
    setting="notify_emails",
    price=FREE,
)
