"""What the topic takes that the network makes for messages of an end."""

from __future__ import annotations

from terradask_modules.caller_policies._scope import CallerScope
from terradask_modules.iam import Statement, allow

_SEE = ["sns:GetTopicAttributes", "sns:ListTagsForResource"]
#: AWS knows no resource for the one subscription that they are about.
_SEE_SUBSCRIPTIONS = "sns:GetSubscriptionAttributes"


def see_topic(scope: CallerScope) -> list[Statement]:
    """Return the right to plan the topic, where the network has one."""
    if not scope.notify_emails:
        return []
    return [
        allow("SeeTopic", _SEE, scope.where.end_topic_arn),
        allow("SeeSubscriptions", _SEE_SUBSCRIPTIONS, "*", scope.in_region),
    ]


def keep_topic(scope: CallerScope) -> list[Statement]:
    """Return the right to make, change and remove the topic and its subscriptions, beside seeing
    them.
    """
    if not scope.notify_emails:
        return []
    return [
        allow(
            "KeepTopic",
            [
                "sns:CreateTopic",
                "sns:DeleteTopic",
                "sns:SetTopicAttributes",
                "sns:Subscribe",
                "sns:TagResource",
                "sns:UntagResource",
            ],
            scope.where.end_topic_arn,
        ),
        allow("EndSubscriptions", "sns:Unsubscribe", "*", scope.in_region),
    ]
