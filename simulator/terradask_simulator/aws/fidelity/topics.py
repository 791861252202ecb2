"""Check and describe topics and subscriptions as SNS does.

AWS (recorded): SNS refuses malformed ARNs, unknown protocols, tags with one key twice, and a topic
that exists with other attributes. tests/records/data/sns.json

AWS (recorded): SNS answers "pending confirmation" to a subscription that its receiver has to
confirm. tests/records/data/sns.json

moto takes all of them, and describes a topic's delivery policy in another form.
"""

from __future__ import annotations

import json
from typing import Any

from terradask_simulator.aws.fidelity.patching import around

__all__ = ["install"]

_PROTOCOLS = frozenset(
    ("application", "email", "email-json", "firehose", "http", "https", "lambda", "sms", "sqs")
)
#: Those whose receivers confirm.
_CONFIRMED = frozenset(("email", "email-json", "http", "https"))
_ELEMENTS = 6
#: Attribute -> what a new topic has.
_DEFAULTS = {"DisplayName": "", "SignatureVersion": "1"}
_REQUESTS = {"headerContentType": "text/plain; charset=UTF-8"}


def install() -> None:
    """Replace moto's checks and answers."""
    from moto.sns.exceptions import InvalidParameterValue, SNSException
    from moto.sns.models import SNSBackend
    from moto.sns.responses import SNSResponse

    @around(SNSBackend, "create_topic")
    def create_topic(create: Any, backend: Any, name: str, attributes: Any, tags: Any) -> Any:
        arn = f"arn:aws:sns:{backend.region_name}:{backend.account_id}:{name}"
        before = getattr(backend.topics.get(arn), "given_attributes", None)
        if before is not None and any(
            value != before.get(key, _DEFAULTS[key])
            for key, value in (attributes or {}).items()
            if key in _DEFAULTS
        ):
            raise _refused("Attributes Reason: Topic already exists with different attributes")
        try:
            topic = create(backend, name, attributes, tags)
        except InvalidParameterValue as error:
            raise _refused("Topic Name") from error
        if before is None:
            topic.given_attributes = dict(attributes or {})
        return topic

    @around(SNSResponse, "tag_resource")
    def tag_resource(tag: Any, response: Any) -> Any:
        keys = [one["Key"] for one in response._get_param("Tags") or []]
        if len(set(keys)) < len(keys):
            raise _refused("Duplicated keys are not allowed.")
        return tag(response)

    @around(SNSResponse, "subscribe")
    def subscribe(make: Any, response: Any) -> Any:
        protocol = response._get_param("Protocol")
        _check_arn("TopicArn", response._get_param("TopicArn"))
        if protocol not in _PROTOCOLS:
            raise _refused(f"Amazon SNS does not support this protocol string: {protocol}")
        answer = make(response)
        if protocol in _CONFIRMED and not response._get_bool_param("ReturnSubscriptionArn"):
            answer.result["SubscriptionArn"] = "pending confirmation"
        return answer

    @around(SNSResponse, "unsubscribe")
    def unsubscribe(end: Any, response: Any) -> Any:
        arn = response._get_param("SubscriptionArn")
        _check_arn("SubscriptionArn", arn)
        if arn.count(":") == _ELEMENTS - 1:
            raise _refused("SubscriptionId")
        return end(response)

    @around(SNSResponse, "get_topic_attributes")
    def get_topic_attributes(get: Any, response: Any) -> Any:
        answer = get(response)
        attributes = answer.result["Attributes"]
        if not attributes["DeliveryPolicy"]:
            del attributes["DeliveryPolicy"]
            retries = json.loads(attributes["EffectiveDeliveryPolicy"])["defaultHealthyRetryPolicy"]
            http = {
                "defaultHealthyRetryPolicy": retries,
                "disableSubscriptionOverrides": False,
                "defaultRequestPolicy": _REQUESTS,
            }
            attributes["EffectiveDeliveryPolicy"] = json.dumps({"http": http})
        return answer

    def _refused(problem: str) -> Exception:
        return SNSException("InvalidParameter", f"Invalid parameter: {problem}")

    def _check_arn(name: str, arn: str | None) -> None:
        if not arn:
            raise _refused(f"{name} Reason: no value for required parameter")
        elements = arn.split(":")
        if len(elements) < _ELEMENTS:
            raise _refused(
                f"{name} Reason: An ARN must have at least {_ELEMENTS} elements, not "
                f"{len(elements)}"
            )
