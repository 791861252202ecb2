"""What a network's clusters tell when they end by themselves, and whom."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from terradask_stacks.settings.base import Section
from terradask_stacks.validators.refusal import refuse, unique
from terradask_stacks.validators.resources import check_email, check_topic_arn

Email = Annotated[str, AfterValidator(check_email)]


class NoticeSettings(Section):
    """A network's settings for the topic of Amazon SNS that schedulers' hosts tell."""

    notify_topic_arn: Annotated[str, AfterValidator(check_topic_arn)] | None = Field(
        default=None,
        description="SNS topic of yours that gets a message when a cluster ends by itself: idle, "
        "without a client, at the end of its lifetime. Schedulers' hosts get the right to publish "
        "to it. Unset: none.",
    )
    notify_emails: Annotated[list[Email], AfterValidator(unique)] = Field(
        default=[],
        description="Addresses that get these messages by mail, of an encrypted topic that is "
        "made for it; each has to confirm AWS's first mail. Instead of notify_topic_arn. "
        "Addresses are in the plan and the state. Empty: there is no such topic.",
    )

    @model_validator(mode="after")
    def _one_topic(self) -> NoticeSettings:
        if self.notify_topic_arn is not None and self.notify_emails:
            raise refuse(
                "network.notify_topic_arn and network.notify_emails are both set",
                allowed="one of them",
                advice="subscribe the addresses to the topic that you have: aws sns subscribe",
            )
        return self

    @property
    def notifies(self) -> bool:
        """Whether schedulers' hosts tell a topic."""
        return self.notify_topic_arn is not None or bool(self.notify_emails)

    def topic_arn(self, made: str) -> str | None:
        """Return the topic that hosts tell: the given one, or `made`, the one that the network
        makes; None without either.
        """
        return made if self.notify_emails else self.notify_topic_arn
