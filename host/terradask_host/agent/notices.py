"""Messages to an SNS topic: a cluster has ended by itself, or its scheduler keeps failing."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from typing import Any, Self

from terradask_host.agent.aws import Aws
from terradask_host.agent.host import Host
from terradask_host.agent.logs import HostLog
from terradask_host.config import HostConfig
from terradask_host.documents import FORMAT, Run, now_text
from terradask_host.metadata import Identity

#: The events: the cluster has ended, or its scheduler's process failed too often.
ENDED, GIVEN_UP = "cluster-ended", "scheduler-failed"
_SUBJECTS = {
    ENDED: "terradask: {} has ended",
    GIVEN_UP: "terradask: the scheduler of {} keeps failing",
}
#: Limit of a reason, which may be a process's output.
#: AWS (documented): SNS Publish accepts a message of up to 256 KiB.
#: https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
_REASON_CHARACTERS = 2_000


class Notice:
    """Publishes a message on a thread; a failure is logged."""

    def __init__(self, aws: Aws, log: HostLog, topic_arn: str, message: Mapping[str, Any]) -> None:
        self._aws, self._log, self._topic_arn, self._message = aws, log, topic_arn, message
        self._thread = threading.Thread(target=self._publish, name="notice", daemon=True)
        self._thread.start()

    @classmethod
    def of_host(cls, host: Host, event: str, reason: str) -> Self | None:
        """Start publishing an event of a host's cluster; None without a topic."""
        arn = host.config.notify_topic_arn
        if arn is None:
            return None
        message = notice_message(host.config, host.identity, host.run, event, reason)
        return cls(host.aws, host.log, arn, message)

    def wait(self, seconds: float) -> None:
        """Wait until the message is published or has failed, at most `seconds`."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._log.info(f"{self._topic_arn} didn't take the notice in {seconds:g} s")

    def _publish(self) -> None:
        try:
            client = self._aws.client("sns", self._topic_arn.split(":")[3])
            client.publish(TopicArn=self._topic_arn, **publish_parameters(self._message))
        except Exception as error:  # noqa: BLE001 - the cluster ends all the same
            self._log.info(f"no notice to {self._topic_arn}: {type(error).__name__}: {error}")
        else:
            self._log.info(f"notice to {self._topic_arn}: {self._message['event']}")


def publish_given_up(host: Host, reason: str) -> None:
    """Publish once per host that it gives up its scheduler: systemd restarts this program."""
    told = host.config.paths.failure_published
    if told.exists():
        return
    notice = Notice.of_host(host, GIVEN_UP, reason)
    if notice is not None:
        told.parent.mkdir(parents=True, exist_ok=True)
        told.touch()
        notice.wait(host.config.timing.notice_seconds)


def notice_message(
    config: HostConfig, identity: Identity, run: Run, event: str, reason: str
) -> dict[str, Any]:
    """Return the message's fields."""
    destroyed = run.life is not None and run.life.destroyed_after
    command = "destroy" if destroyed else "start"
    follows = f"terradask {command} {identity.cluster}"
    if event == GIVEN_UP:
        follows = f"terradask logs {identity.cluster} scheduler"
    return {
        "format": FORMAT,
        "event": event,
        "workspace": config.workspace,
        "cluster": identity.cluster,
        "run_id": run.run_id,
        "owner": run.owner,
        "reason": reason[:_REASON_CHARACTERS],
        "started_at": run.started_at,
        **({"ended_at": now_text()} if event == ENDED else {"failed_at": now_text()}),
        # The bucket's name ends with the account and the region.
        "account": config.bucket.removesuffix(f"-{config.region}").rpartition("-")[2],
        "region": config.region,
        "next": follows,
    }


def publish_parameters(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of Publish: the message as JSON, and attributes for filters."""
    filters = ("event", "workspace", "cluster", "owner", "run_id")
    return {
        "Subject": _SUBJECTS[message["event"]].format(message["cluster"])[:100],
        "Message": json.dumps(message, indent=1),
        "MessageAttributes": {
            name: {"DataType": "String", "StringValue": message[name]}
            for name in filters
            if message[name]
        },
    }
