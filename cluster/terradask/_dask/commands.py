"""Commands to a cluster's scheduler as they are sent, and its replies: an answer, or an error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgpack
from distributed.core import rpc
from distributed.protocol import to_serialize

from terradask.errors import ClusterError, VersionMismatch
from terradask_host.commands import FORMAT, OPERATION, Command
from terradask_host.documents import UNREADABLE, plain_lines

_MOST_CHARACTERS = 300

#: Makes the error of a refusal, of the cluster, the command, and the refusal's fields.
Refused = Callable[[str, Command, Mapping[str, str]], ClusterError]


def packed(command: Command) -> bytes:
    """Return what is sent."""
    found: bytes = msgpack.packb(command.to_document())
    return found


def refused(cluster: str, command: Command, why: Mapping[str, str]) -> ClusterError:
    """Return the error of a command that the scheduler refuses."""
    return ClusterError(
        f"The scheduler of cluster {cluster!r} refuses what it was asked: {command.what}.",
        cluster=cluster,
        given=f"{why['problem']} ({why['given']})" if "given" in why else why["problem"],
        allowed=why.get("allowed"),
        advice=why.get("advice")
        or f"try again; terradask logs {cluster} scheduler shows what it does",
    )


async def send(
    scheduler: rpc, cluster: str, command: Command, *, refused: Refused = refused
) -> Any:
    """Send a scheduler a command over Dask's connection, and return its answer.

    Raises as `read_reply`, and ``OSError``.
    """
    # Dask's DEBUG log shows only the type of what is serialized.
    call = getattr(scheduler, OPERATION)(sealed=to_serialize(packed(command)))
    return read_reply(cluster, command, await call, refused=refused)


def read_reply(cluster: str, command: Command, content: Any, *, refused: Refused = refused) -> Any:
    """Return the answer in a scheduler's reply; None stands for the reply of one that takes no
    commands.

    Raises `ClusterError`, as `refused` makes it, and `VersionMismatch`.
    """
    if content is None:
        raise _of_another_version(cluster, command, 0)
    try:
        reply = msgpack.unpackb(content)
        if reply["format"] != FORMAT or "unknown" in reply:
            raise _of_another_version(cluster, command, int(reply["format"]))
        if "answer" in reply:
            return reply["answer"]
        why = {
            name: plain_lines(text)[:_MOST_CHARACTERS]
            for name, text in reply["refused"].items()
            if text is not None
        }
        error = refused(cluster, command, why)
    except (*UNREADABLE, msgpack.UnpackException) as cause:
        raise ClusterError(
            f"The scheduler of cluster {cluster!r} gives no answer that can be read.",
            cluster=cluster,
            advice=f"terradask logs {cluster} scheduler shows what it does",
        ) from cause
    raise error


def _of_another_version(cluster: str, command: Command, their_format: int) -> VersionMismatch:
    if their_format > FORMAT:
        return VersionMismatch(
            f"The hosts of cluster {cluster!r} run a newer terradask, which takes commands in "
            f"another form: {command.what}.",
            cluster=cluster,
            advice="install that terradask here",
        )
    return VersionMismatch(
        f"The hosts of cluster {cluster!r} run an older terradask, without {command.what}.",
        cluster=cluster,
        advice="terradask apply network, then stop and start the cluster",
    )
