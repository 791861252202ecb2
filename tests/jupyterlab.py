"""A JupyterLab server of a folder, on loopback, for a headless browser."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from .waiting import PROCESS_SECONDS, eventually

_TOKEN = "in-a-test-on-loopback"
#: Settings of its extensions: the terminal's lines are text beside their picture, and nothing is
#: asked of the internet.
_SETTINGS = {
    "terminal-extension/plugin": {"screenReaderMode": True, "fontSize": 12, "theme": "inherit"},
    "apputils-extension/themes": {"adaptive-theme": True},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}
_OPTIONS = ["--no-browser", "--allow-root", "--ip=127.0.0.1", "--LabApp.news_url=None"]


@contextmanager
def lab(folder: Path, home: Path, **environ: str) -> Iterator[str]:
    """Serve a folder, with Jupyter's own files in another, and variables besides this process's;
    yield an address to format with a path.
    """
    info = home / "address"
    for name, values in _SETTINGS.items():
        file = home / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(values))
    variables = {
        **os.environ,
        **environ,
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "TERM": "xterm-256color",
    }
    command = [sys.executable, "-m", "jupyterlab", *_OPTIONS, "--port=0"]
    with info.open("w") as log:
        process = subprocess.Popen(
            [*command, f"--IdentityProvider.token={_TOKEN}", f"--ServerApp.root_dir={folder}"],
            env=variables,
            cwd=folder,
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    try:
        yield eventually(lambda: _address(info), seconds=PROCESS_SECONDS)
    finally:
        process.terminate()
        process.wait(PROCESS_SECONDS)


def _address(log: Path) -> str:
    """Return where the server answers, as it has logged; empty before it does."""
    for line in log.read_text().splitlines():
        found = line.rpartition(" ")[2]
        if found.startswith("http://127.0.0.1:"):
            root = found.partition("/lab")[0]
            try:
                with urllib.request.urlopen(f"{root}/api?token={_TOKEN}", timeout=PROCESS_SECONDS):
                    return f"{root}{{}}?token={_TOKEN}"
            except urllib.error.URLError:
                return ""
    return ""
