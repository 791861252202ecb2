"""``terradask software``: show and resolve this environment's packages for hosts."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from terradask.cli._invocation import answer, current, flag, json_option
from terradask.cli._output import message, table

if TYPE_CHECKING:
    from terradask._software.scan import Scan

#: After this time without an answer, a message names the reason of waiting.
_SLOW_SECONDS = 5.0

_architecture_option = click.option(
    "--architecture",
    type=click.Choice(["x86_64", "arm64"]),
    default="x86_64",
    show_default=True,
    help="The hosts' processor architecture.",
)


@click.group(short_help="Show which packages of this environment hosts get")
def software() -> None:
    """Show which packages of this environment hosts get."""


@software.command(name="scan", short_help="List packages and where they came from")
@_architecture_option
@json_option
def scan_(architecture: str) -> None:
    """List the packages of the environment that runs terradask, their origin, and their state on
    hosts: taken, built (a start makes a wheel), dropped (needed only on this platform, or by
    terradask to deploy), refused, or added (needed only on the hosts' platform).

    Sends no request to AWS or an index, and changes nothing.
    """
    from terradask._software.client_versions import added, base
    from terradask._software.environment import scan_environment

    found = scan_environment(architecture, base(), added())
    answer(found.as_dict(), _table(found))
    if not current().as_json:
        _explain(found)


@software.command(name="lock", short_help="Resolve packages for hosts")
@_architecture_option
@flag("--strict", help="Leave out packages whose version has no wheel for hosts.")
@click.option(
    "--out",
    metavar="pylock.toml",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write the lock to this file, and local packages' wheels to wheels/ beside it.",
)
@click.argument("file", required=False, type=click.Path(path_type=Path))
@json_option
def lock_(architecture: str, strict: bool, out: Path | None, file: Path | None) -> None:
    """Lock what hosts would install as a pylock.toml (PEP 751): with a FILE, the packages of
    software = "FILE"; otherwise those of package_sync = true, from the environment that runs
    terradask. software = "pylock.toml" then names the result, and other tools install it.

    Only reads indexes, channels and repositories. Standard error lists packages that hosts would
    lack, or get in another version. conda's packages are in [tool.terradask].
    """
    from terradask._software.package_sync import describe_differences, lock_for_hosts
    from terradask._software.pylock_file import as_pylock, check_pylock_name, write_pylock
    from terradask._software.sync import PackageSync

    if out is not None:
        check_pylock_name(out)
    sync = PackageSync(file is None, strict=strict)
    with _message_if_slow("asking indexes, channels and repositories: terradask software indexes"):
        found = lock_for_hosts(file or (), sync, architecture=architecture, lock_file=None)
        folder = Path.cwd() if file is None else file.absolute().parent
        text = as_pylock(found, architecture, os.environ, folder)
    if out is not None:
        write_pylock(out, text, found)
    document = {
        "python": found.python,
        "architecture": architecture,
        "packages": dict(found.packages),
        "built": {wheel.name: wheel.version for wheel in found.wheels},
        "hashes": {name: list(hashes) for name, hashes in found.hashes.items()},
        "conda": [
            {name: getattr(package, name) for name in ("name", "version", "url", "sha256")}
            for package in found.conda
        ],
        "missing": dict(found.missing),
        "changed": {
            name: {"here": here, "hosts": hosts} for name, (here, hosts) in found.changed.items()
        },
    }
    answer({**document, "pylock": text, "out": out and str(out)}, str(out or text.rstrip()))
    if current().as_json:
        return
    if differences := describe_differences(found):
        message(differences)
    if out is None and found.wheels:
        names = ", ".join(sorted(wheel.name for wheel in found.wheels))
        message(f"the lock names wheels of {names}, which --out writes beside it")


@contextmanager
def _message_if_slow(text: str) -> Iterator[None]:
    waiting = threading.Timer(_SLOW_SECONDS, message, [text])
    waiting.start()
    try:
        yield
    finally:
        waiting.cancel()


@software.command(name="indexes", short_help="List the package indexes of hosts")
@json_option
def indexes_() -> None:
    """List the package indexes in uv's configuration or, if it has none, in pip's, in order of use,
    and whether hosts use them too. For credentials, only the source is shown.

    Sends no request to an index, and changes nothing.
    """
    from terradask._software.indexes.indexes import read_indexes

    found = read_indexes(os.environ).as_dicts()
    rows = [[each["url"], each["source"], each["credentials"], each["hosts"]] for each in found]
    answer(found, table(["index", "from", "credentials from", "hosts"], rows))


def _table(found: Scan) -> str:
    rows = [[p.name, p.version, p.origin, p.verdict, p.why] for p in found.packages]
    added = [
        [
            a.requirement,
            None,
            None,
            "added" if a.refused is None else "refused",
            "; ".join(filter(None, [f"needed by {', '.join(a.needed_by)}", a.refused])),
        ]
        for a in found.added
    ]
    return table(["package", "version", "origin", "verdict", "why"], rows + added)


def _explain(found: Scan) -> None:
    message(", ".join(f"{count} {verdict}" for verdict, count in found.counts.items()))
    if not found.python_on_hosts:
        from terradask._software.hosts import HOST_PYTHONS

        message(f"hosts have no Python {found.python}: use one of {', '.join(HOST_PYTHONS)}")
    if found.counts["refused"]:
        message(
            "what is refused came from no index, and an index may have another author's package "
            "under its name: publish it to the index that hosts use and install it from there, or "
            "send modules with Client.upload_file"
        )
