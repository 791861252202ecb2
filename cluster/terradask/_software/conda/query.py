"""Ask conda's channels by rattler: a program of its own, which reads a request and prints the
answer, both in JSON.

rattler's threads may still let go of objects when Python ends, and crash it. So a user's process
never has them, and this one ends without that.
"""

from __future__ import annotations

import asyncio
import datetime
import json
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask_host.channel_credentials import headers, with_token

if TYPE_CHECKING:
    from rattler import Channel, Client, Gateway, MatchSpec, Subdir
    from rattler.repo_data import RepoDataRecord

_SECONDS = 300
_RETRIES = 3
_READS = 16

#: A request, or the answer to one.
Document = dict[str, Any]


def main() -> None:
    """Answer the request on standard input."""
    answer = asyncio.run(_answered(json.load(sys.stdin)))
    print(json.dumps(answer), flush=True)
    os._exit(0)


async def _answered(request: Document) -> Document:
    from rattler.exceptions import SolverError

    credentials = {url: each for url, each in request["channels"] if each is not None}
    client = _client(credentials)
    try:
        if request["do"] == "list":
            return {"paths": await _listed(client, request["urls"], credentials)}
        return await _solved(client, request, credentials)
    except SolverError as error:
        return {"unsolvable": str(error).strip()}
    except Exception as error:  # noqa: BLE001 - rattler's errors have no base of their own
        return {"unanswered": str(error).strip() or type(error).__name__}


def _client(credentials: Mapping[str, str]) -> Client:
    from rattler import Client
    from rattler.networking import AddHeadersMiddleware, RetryMiddleware

    def more(host: str, path: str) -> dict[str, str] | None:
        return headers(host, path, credentials)

    return Client([RetryMiddleware(_RETRIES), AddHeadersMiddleware(more)])


async def _solved(client: Client, request: Document, credentials: Mapping[str, str]) -> Document:
    from rattler import (
        Channel,
        ChannelPriority,
        Gateway,
        GenericVirtualPackage,
        MatchSpec,
        PackageName,
        Subdir,
        Version,
        solve,
    )
    from rattler.package import BuildString

    # By the URL that is asked, which may have a token.
    channels = {with_token(url, credentials): url for url, _ in request["channels"]}
    asked = [Channel(url) for url in channels]
    specs = [MatchSpec(spec) for spec in request["specs"]]
    platforms = [Subdir(request["subdir"]), Subdir("noarch")]
    with tempfile.TemporaryDirectory(prefix="terradask-") as made:
        gateway = Gateway(cache_dir=Path(request["cache"] or made), client=client)
        records = await solve(
            asked,
            specs,
            gateway=gateway,
            platforms=platforms,
            virtual_packages=[
                GenericVirtualPackage(PackageName(name), Version(version), BuildString(build))
                for name, version, build in request["virtual_packages"]
            ],
            channel_priority=ChannelPriority.Strict,
            timeout=datetime.timedelta(seconds=_SECONDS),
            # Of other channels than the file's the user knows nothing.
            channel_relations="disabled",
        )
        behind = await _behind(gateway, platforms, asked, specs, records)
    if behind is not None:
        channel, names = behind
        return {"channel": channels[channel.base_url.rstrip("/")], "behind": names}
    return {"records": [_described(record, channels) for record in records]}


async def _behind(
    gateway: Gateway,
    platforms: Sequence[Subdir],
    channels: Sequence[Channel],
    specs: Sequence[MatchSpec],
    records: Sequence[RepoDataRecord],
) -> tuple[Channel, list[str]] | None:
    """Return a channel with the packages that it has, and that are from one behind it.

    rattler lets the version in a file's own entry choose the channel, and the one behind it may be
    everyone's.
    """
    free = {spec.name.normalized for spec in specs if spec.channel is not None}
    left = {record.name.normalized: record for record in records}
    for channel in channels:
        left = {
            name: record
            for name, record in left.items()
            if name not in free and record.channel.rstrip("/") != channel.base_url.rstrip("/")
        }
        if not left:
            break
        found = await gateway.query([channel], platforms, list(left), recursive=False)
        names = sorted({one.name.normalized for every in found for one in every})
        if names:
            return channel, names
    return None


def _described(record: RepoDataRecord, channels: Mapping[str, str]) -> Document:
    url = record.url
    for asked, bare in channels.items():
        if url.startswith(f"{asked}/"):
            url = bare + url.removeprefix(asked)
            break
    return {
        "name": record.name.normalized,
        "version": str(record.version),
        "url": url,
        "sha256": None if record.sha256 is None else record.sha256.hex(),
        "depends": record.depends,
    }


async def _listed(client: Client, urls: Sequence[str], credentials: Mapping[str, str]) -> list[str]:
    """Return the paths of all files in archives, by their lists."""
    from rattler.package_streaming import PackageArchive

    turn = asyncio.Semaphore(_READS)

    async def read(url: str) -> list[str]:
        async with turn:
            archive = await PackageArchive.from_url(client, with_token(url, credentials))
            listed = await archive.paths_json()
        return [each.relative_path.as_posix() for each in listed.paths]

    every = await asyncio.gather(*map(read, urls))
    return [path for paths in every for path in paths]


if __name__ == "__main__":
    main()
