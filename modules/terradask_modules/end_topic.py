"""The SNS topic for notices of clusters' ends, if the network makes it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from terradask_modules.aws import Construct, SnsTopic, SnsTopicSubscription, at
from terradask_modules.kinds.end_topic import NAME, topic_name, topic_policy
from terradask_modules.where import Where

#: AWS (documented): The AWS managed key alias/aws/sns admits all of the account's publishers to
#: SNS. https://docs.aws.amazon.com/sns/latest/dg/sns-key-management.html
_AWS_KEY = "alias/aws/sns"


class EndTopic(Construct):
    """A topic, and a subscription for each address.

    Resources created: a topic with a policy, encrypted by a KMS key or AWS's own, and subscriptions
    by mail, which deliver once they are confirmed. Messages are billed.
    """

    def __init__(
        self,
        scope: Construct,
        *,
        where: Where,
        emails: Sequence[str],
        kms_key_arn: str | None = None,
        tags: Mapping[str, str],
    ) -> None:
        super().__init__(scope, NAME)
        topic = SnsTopic(
            self,
            "topic",
            name=topic_name(where),
            kms_master_key_id=kms_key_arn or _AWS_KEY,
            policy=topic_policy(where),
            tags=dict(tags),
        )
        at(NAME, topic)
        for email in emails:
            # By address, so that changes of the list move no other subscription.
            name = f"{NAME}-{hashlib.sha256(email.encode()).hexdigest()[:12]}"
            subscription = SnsTopicSubscription(
                self, name, topic_arn=topic.arn, protocol="email", endpoint=email
            )
            at(name, subscription)
