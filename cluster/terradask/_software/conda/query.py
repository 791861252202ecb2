"""Query conda channels with rattler: a program that reads a JSON request and prints a JSON reply.

rattler's threads may still release objects when Python exits, and crash the process. So rattler
runs in this process of its own, never in a user's.
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

#: A request, or the reply to one.
Document = dict[str, Any]


def main() -> None:
    """Answer the request on standard input."""
    answer = asyncio.run(_answer(json.load(sys.stdin)))
    print(json.dumps(answer), flush=True)
    os._exit(0)


async def _answer(request: Document) -> Document:
    from rattler.exceptions import SolverError

    credentials = {url: each for url, each in request["channels"] if each is not None}
    client = _client(credentials)
    try:
        if request["do"] == "list":
            return {"paths": await _list_files(client, request["urls"], credentials)}
        return await _solve(client, request, credentials)
    except SolverError as error:
        return {"unsolvable": str(error).strip()}
    except Exception as error:  # noqa: BLE001 - rattler's errors have no common base class
        return {"unanswered": str(error).strip() or type(error).__name__}


def _client(credentials: Mapping[str, str]) -> Client:
    from rattler import Client
    from rattler.networking import AddHeadersMiddleware, RetryMiddleware

    def credential_headers(host: str, path: str) -> dict[str, str] | None:
        return headers(host, path, credentials)

    return Client([RetryMiddleware(_RETRIES), AddHeadersMiddleware(credential_headers)])


async def _solve(client: Client, request: Document, credentials: Mapping[str, str]) -> Document:
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

    # Keyed by the requested URL, which may have a token.
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
            # Users don't know of channels beside those of the file.
            channel_relations="disabled",
        )
        behind = await _from_later_channel(gateway, platforms, asked, specs, records)
    if behind is not None:
        channel, names = behind
        return {"channel": channels[channel.base_url.rstrip("/")], "behind": names}
    return {"records": [_describe(record, channels) for record in records]}


async def _from_later_channel(
    gateway: Gateway,
    platforms: Sequence[Subdir],
    channels: Sequence[Channel],
    specs: Sequence[MatchSpec],
    records: Sequence[RepoDataRecord],
) -> tuple[Channel, list[str]] | None:
    """Return a channel, and those of its packages that the solution takes from a later channel.

    The version in a file's own entry makes rattler choose the channel, and a later one may be
    writable by everyone.
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


def _describe(record: RepoDataRecord, channels: Mapping[str, str]) -> Document:
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


async def _list_files(
    client: Client, urls: Sequence[str], credentials: Mapping[str, str]
) -> list[str]:
    """Return the paths of all files in archives, from the channel's file lists."""
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
