"""Queues that get what is published to a topic."""

from __future__ import annotations

import json
from typing import Any


def subscribed_queue(
    sns: Any, sqs: Any, topic_arn: str, only: dict[str, list[str]], name: str
) -> str:
    """Make a queue that gets a topic's messages with such attributes; return its address."""
    queue = str(sqs.create_queue(QueueName=name)["QueueUrl"])
    attributes = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["QueueArn"])
    sns.subscribe(
        TopicArn=topic_arn,
        Protocol="sqs",
        Endpoint=attributes["Attributes"]["QueueArn"],
        Attributes={"FilterPolicy": json.dumps(only)},
    )
    return queue


def messages_of(sqs: Any, queue: str) -> list[dict[str, Any]]:
    """Return all that a queue has got; taken from it."""
    got = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10).get("Messages", [])
    return [json.loads(json.loads(one["Body"])["Message"]) for one in got]
