"""Encode commands to a cluster's scheduler, and decode its replies: an answer, or an error."""

from __future__ import annotations

from typing import Any

import msgpack
from distributed.core import rpc
from distributed.protocol import to_serialize

from terradask.errors import ClusterError, VersionMismatch
from terradask_host.commands import FORMAT, OPERATION, Command
from terradask_host.documents import UNREADABLE, plain_lines

_MOST_CHARACTERS = 300


def pack_command(command: Command) -> bytes:
    """Return a command's bytes."""
    content: bytes = msgpack.packb(command.to_document())
    return content


async def send(scheduler: rpc, cluster: str, command: Command) -> Any:
    """Send a scheduler a command over Dask's connection, and return its answer.

    Raises as `read_reply`, and ``OSError``.
    """
    # Dask's DEBUG log shows only the type of what is serialized.
    call = getattr(scheduler, OPERATION)(sealed=to_serialize(pack_command(command)))
    return read_reply(cluster, command, await call)


def read_reply(cluster: str, command: Command, content: Any) -> Any:
    """Return the answer in a scheduler's reply. A scheduler without commands replies None.

    Raises `ClusterError` for a refusal, and `VersionMismatch`.
    """
    see_log = f"terradask logs {cluster} scheduler shows what it does"
    try:
        reply: Any = {"format": 0} if content is None else msgpack.unpackb(content)
        if reply["format"] != FORMAT or "unknown" in reply:
            raise _version_mismatch(cluster, command, int(reply["format"]))
        if "answer" in reply:
            return reply["answer"]
        why = {
            name: plain_lines(text)[:_MOST_CHARACTERS]
            for name, text in reply["refused"].items()
            if text is not None
        }
        error = ClusterError(
            f"The scheduler of cluster {cluster!r} refuses to {command.words}.",
            cluster=cluster,
            given=f"{why['problem']} ({why['given']})" if "given" in why else why["problem"],
            allowed=why.get("allowed"),
            advice=why.get("advice", f"try again; {see_log}"),
        )
    except (*UNREADABLE, msgpack.UnpackException) as cause:
        raise ClusterError(
            f"The scheduler of cluster {cluster!r} sent an unreadable answer.",
            cluster=cluster,
            advice=see_log,
        ) from cause
    raise error


def _version_mismatch(cluster: str, command: Command, their_format: int) -> VersionMismatch:
    if their_format > FORMAT:
        return VersionMismatch(
            f"The hosts of cluster {cluster!r} run a newer terradask, which doesn't accept this "
            f"version's command to {command.words}.",
            cluster=cluster,
            advice="install the hosts' version of terradask on this machine",
        )
    return VersionMismatch(
        f"The hosts of cluster {cluster!r} run an older terradask, which doesn't know the "
        f"command to {command.words}.",
        cluster=cluster,
        advice="terradask apply network, then stop and start the cluster",
    )
