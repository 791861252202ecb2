"""What a scheduler's host may do to tell that its cluster has ended by itself, and what the topic
refuses. Pure: plain dictionaries.
"""

from __future__ import annotations

from terradask_modules.iam import Statement, allow, policy_text, statement
from terradask_modules.partitions import dns_suffix

#: What publishing to a topic with a customer's key takes:
#: https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
_KEY_ACTIONS = ["kms:Decrypt", "kms:GenerateDataKey"]


def via_sns(topic_arn: str) -> str:
    """Return the name by which KMS knows that a key is used for a topic."""
    _, partition, _, region, *_ = topic_arn.split(":")
    return f"sns.{region}.{dns_suffix(partition)}"


def notice_statements(topic_arn: str | None, kms_key_arn: str | None) -> list[Statement]:
    """Return the right to publish to one topic, also where the customer's key encrypts it."""
    if topic_arn is None:
        return []
    publish = allow("TellOfEnd", "sns:Publish", topic_arn)
    if kms_key_arn is None:
        return [publish]
    through = {"StringEquals": {"kms:ViaService": via_sns(topic_arn)}}
    return [publish, allow("UseKeyForTopic", _KEY_ACTIONS, kms_key_arn, through)]


def topic_policy(topic_arn: str) -> str:
    """Return the document that refuses messages without TLS, and allows nothing: IAM decides who
    publishes and subscribes. Without it SNS would let all of the account do so.
    """
    return policy_text(
        [
            statement(
                "Deny",
                "sns:Publish",
                sid="TlsOnly",
                principal="*",
                resource=topic_arn,
                condition={"Bool": {"aws:SecureTransport": "false"}},
            )
        ]
    )
