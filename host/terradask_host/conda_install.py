"""Install a lock's conda packages with py-rattler, as a program of its own.

So no other program imports from py-rattler's folder, and a build can be ended. Arguments:
py-rattler's folder, and a JSON file with ``prefix``, ``folder`` for temporary files, and
``archives``. Channels' credentials are in a variable, which other users can't read.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from terradask_host.channel_credentials import headers, with_token

if TYPE_CHECKING:
    from rattler import Client
    from rattler.repo_data import RepoDataRecord

#: Credentials by the URL of each channel, as JSON.
CREDENTIALS = "TERRADASK_CHANNELS"

_DOWNLOADS = 8
_RETRIES = 4
_SECONDS = 600


def main(installer: str, request: str) -> int:
    """Install the packages; return 0, or 1 after a line with the error."""
    sys.path.insert(0, installer)
    import rattler

    if not Path(rattler.__file__).is_relative_to(installer):
        print(f"py-rattler is another one: {rattler.__file__}")
        return 1
    channels = json.loads(os.environ.pop(CREDENTIALS, "{}"))
    try:
        asyncio.run(_install(json.loads(Path(request).read_bytes()), channels))
    except Exception as error:  # noqa: BLE001 - the log must have any error
        print(f"{type(error).__name__}: {error}")
        return 1
    return 0


async def _install(wanted: dict[str, Any], channels: dict[str, str]) -> None:
    from rattler import install

    folder, archives = Path(wanted["folder"]), wanted["archives"]
    client, turn = _client(channels), asyncio.Semaphore(_DOWNLOADS)
    # All downloads end before a failure counts: the next try reuses the complete ones.
    found = await asyncio.gather(
        *(_fetched(client, turn, each, channels, folder) for each in archives),
        return_exceptions=True,
    )
    failed = next((each for each in found if isinstance(each, BaseException)), None)
    if failed is not None:
        raise failed
    records = [each for each in found if not isinstance(each, BaseException)]
    shutil.rmtree(wanted["prefix"], ignore_errors=True)
    size = sum(record.size or 0 for record in records)
    print(f"{len(records)} packages of conda, {size} bytes", flush=True)
    await install(
        records,
        wanted["prefix"],
        cache_dir=folder / "cache",
        client=client,
        # As conda does: some packages are complete only then.
        execute_link_scripts=True,
        show_progress=False,
    )


async def _fetched(
    client: Client,
    turn: asyncio.Semaphore,
    archive: dict[str, str],
    channels: dict[str, str],
    folder: Path,
) -> RepoDataRecord:
    """Download one archive, and check its SHA-256 before it is read."""
    from rattler.package_streaming import download_to_path
    from rattler.repo_data import RepoDataRecord

    path = folder / archive["sha256"] / archive["file"]
    path.parent.mkdir(parents=True, exist_ok=True)
    async with turn:
        if await asyncio.to_thread(_sha256, path) != archive["sha256"]:
            try:
                await download_to_path(client, with_token(archive["url"], channels), path)
            except Exception as error:
                raise OSError(f"{archive['url']} can't be downloaded: {error}") from error
        found = await asyncio.to_thread(_sha256, path)
    if found != archive["sha256"]:
        raise ValueError(
            f"{archive['url']} has the SHA-256 {found}, software.lock names {archive['sha256']}"
        )
    return await RepoDataRecord.from_package_archive(path)


def _sha256(path: Path) -> str | None:
    if not path.exists():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _client(channels: dict[str, str]) -> Client:
    from rattler import Client
    from rattler.networking import AddHeadersMiddleware, RetryMiddleware

    def more(host: str, path: str) -> dict[str, str] | None:
        return headers(host, path, channels)

    return Client([RetryMiddleware(_RETRIES), AddHeadersMiddleware(more)], timeout=_SECONDS)


if __name__ == "__main__":
    code = main(*sys.argv[1:])
    sys.stdout.flush()
    # py-rattler's threads may still free objects, and crash a Python that exits in order.
    os._exit(code)
