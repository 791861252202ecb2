"""A PostgreSQL server of a test's own, from Debian's package."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .waiting import HANG_SECONDS, eventually

_DEBIAN = Path("/usr/lib/postgresql")
#: PostgreSQL refuses to run as root.
_USER = "postgres"


def _programs() -> Path | None:
    """Return the folder of the newest server's programs."""
    versions = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    found = shutil.which("initdb")
    return versions[-1].parent if versions else Path(found).parent if found else None


NEEDS_POSTGRESQL = pytest.mark.skipif(
    _programs() is None, reason="PostgreSQL isn't installed: make postgresql"
)


@contextlib.contextmanager
def postgresql(address: str, password: str) -> Iterator[Any]:
    """Run a server at an address; yield a connection of its owner, whose name is ``postgres``.

    Everybody connects from 127.0.0.0/8 with a password.
    """
    import pg8000.native

    programs = _programs()
    assert programs is not None
    who = {"user": _USER, "group": _USER, "extra_groups": []} if os.geteuid() == 0 else {}
    with tempfile.TemporaryDirectory(prefix="terradask-postgresql-") as folder:
        root = Path(folder)
        secret = root / "password"
        secret.write_text(password)
        if who:
            for path in (root, secret):
                shutil.chown(path, _USER, _USER)
        made = ["--auth=scram-sha-256", f"--username={_USER}", f"--pwfile={secret}", "--no-sync"]
        with (root / "server.log").open("wb") as log:
            output: dict[str, Any] = {"stdout": log, "stderr": log, "cwd": folder, **who}
            subprocess.run(
                [programs / "initdb", "--pgdata=data", "--encoding=UTF8", *made],
                check=True,
                timeout=HANG_SECONDS,
                **output,
            )
            settings = {
                "listen_addresses": address,
                "unix_socket_directories": "",
                "fsync": "off",
                "shared_buffers": "16MB",
            }
            options = [f"--{name}={value}" for name, value in settings.items()]
            server = subprocess.Popen([programs / "postgres", "-D", "data", *options], **output)
        try:

            def connected() -> Any:
                assert server.poll() is None, (root / "server.log").read_text()
                with contextlib.suppress(pg8000.native.InterfaceError, pg8000.native.DatabaseError):
                    return pg8000.native.Connection(_USER, host=address, password=password)
                return None

            with contextlib.closing(eventually(connected)) as connection:
                yield connection
        finally:
            # Connections that tasks left open end too.
            server.send_signal(signal.SIGINT)
            server.wait(HANG_SECONDS)
