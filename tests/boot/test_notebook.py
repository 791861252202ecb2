"""A notebook server on a machine that boots: JupyterLab comes from the index, systemd's unit starts
it, and a cell runs in a browser.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from terradask import Cluster

from .. import browser
from ..browser import NEEDS_CHROMIUM
from ..notebook_pages import open_notebook, run_cell
from ..waiting import HANG_SECONDS
from .booted_aws import BOOT_SECONDS, BootedAws

pytestmark = [pytest.mark.boot, NEEDS_CHROMIUM]

#: What a cell prints: facts of the kernel's process, and of a task of the cluster.
CELL = """\
import json, os, pathlib, pwd, socket
from distributed import Client
status = dict(
    line.split(":\\t", 1) for line in pathlib.Path("/proc/self/status").read_text().splitlines()
)
print(json.dumps({
    "user": pwd.getpwuid(os.getuid()).pw_name,
    "folder": os.getcwd(),
    "capabilities": status["CapEff"],
    "no_new_privileges": status["NoNewPrivs"],
    "unit": pathlib.Path("/proc/self/cgroup").read_text().strip(),
    "here": socket.gethostname(),
    "there": Client().submit(socket.gethostname).result(timeout=120),
}))
"""


# Debian's Python has another patch release than the client's.
@pytest.mark.filterwarnings("ignore::distributed.versions.VersionMismatchWarning")
def test_a_cell_runs_on_the_schedulers_host(aws: BootedAws) -> None:
    options: dict[str, Any] = {"connect": "private", "timeout": BOOT_SECONDS}
    with (
        Cluster("notes", n_workers=1, jupyter=True, **options) as cluster,
        browser.opened() as chromium,
    ):
        cluster.wait_for_workers(1, timeout=BOOT_SECONDS)
        page = chromium.new_page()
        page.set_default_timeout(HANG_SECONDS * 1000)
        open_notebook(page, cluster.jupyter_link)
        told = json.loads(run_cell(page, CELL))
        hosts = {f"ip-{each.address.replace('.', '-')}" for each in aws.power.machines.values()}
    assert {told["here"], told["there"]} <= hosts
    assert told["here"] != told["there"]
    assert told["user"] == "terradask"
    assert told["folder"] == "/var/lib/terradask/notebooks"
    assert told["capabilities"].strip("0") == ""
    assert told["no_new_privileges"] == "1"
    assert "terradask-host.service" in told["unit"]
