"""Messages to a topic of SNS: that a cluster has ended by itself, or that its scheduler keeps
failing.
"""

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

#: What has happened: the cluster has ended, or its scheduler's process died too often.
ENDED, GIVEN_UP = "cluster-ended", "scheduler-failed"
_SUBJECTS = {
    ENDED: "terradask: {} has ended",
    GIVEN_UP: "terradask: the scheduler of {} keeps failing",
}
#: Of a reason, which may be a process's last words: SNS takes 256 KiB.
_REASON_CHARACTERS = 2_000


class Notice:
    """Publishes a message beside what the host does, which waits for no topic.

    A notice that can't be published is a line in the log.
    """

    def __init__(self, aws: Aws, log: HostLog, topic_arn: str, message: Mapping[str, Any]) -> None:
        self._aws, self._log, self._topic_arn, self._message = aws, log, topic_arn, message
        self._thread = threading.Thread(target=self._publish, name="notice", daemon=True)
        self._thread.start()

    @classmethod
    def of_host(cls, host: Host, event: str, reason: str) -> Self | None:
        """Begin to tell what has happened to a host's cluster; None without a topic."""
        arn = host.config.notify_topic_arn
        if arn is None:
            return None
        message = message_of(host.config, host.identity, host.run, event, reason)
        return cls(host.aws, host.log, arn, message)

    def wait(self, seconds: float) -> None:
        """Wait until the message is published or has failed, for so long at most."""
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._log.info(f"{self._topic_arn} didn't take the notice in {seconds:g} s")

    def _publish(self) -> None:
        try:
            client = self._aws.client("sns", self._topic_arn.split(":")[3])
            client.publish(TopicArn=self._topic_arn, **publication(self._message))
        except Exception as error:  # noqa: BLE001 - the cluster ends all the same
            self._log.info(f"{self._topic_arn} can't be told: {type(error).__name__}: {error}")
        else:
            self._log.info(f"{self._topic_arn} is told: {self._message['event']}")


def tell_given_up(host: Host, reason: str) -> None:
    """Tell that a host runs its scheduler no more, once in its life: systemd tries again."""
    told = host.config.paths.told_failed
    if told.exists():
        return
    notice = Notice.of_host(host, GIVEN_UP, reason)
    if notice is not None:
        told.parent.mkdir(parents=True, exist_ok=True)
        told.touch()
        notice.wait(host.config.timing.notice_seconds)


def message_of(
    config: HostConfig, identity: Identity, run: Run, event: str, reason: str
) -> dict[str, Any]:
    """Return what the message says."""
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


def publication(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters that a message is published with: JSON, and attributes by which
    subscriptions filter.
    """
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
