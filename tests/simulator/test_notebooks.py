"""The notebook server of a cluster, in a real browser: through the client's loopback, and over
HTTPS at the scheduler's host.
"""

import json
import os
import signal
import ssl
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from distributed import Client

from terradask import Cluster, Workspace

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM
from ..notebook_pages import open_notebook, run_cell
from ..waiting import HANG_SECONDS, eventually
from .hosts.processes import listening, listening_files

pytestmark = [pytest.mark.simulator, pytest.mark.life, NEEDS_CHROMIUM]

#: What a cell prints: facts of the kernel, and of a task of the cluster.
CELL = """\
import json, os
from distributed import Client, get_worker
client = Client()
print(json.dumps({
    "address": client.scheduler.address,
    "worker": client.submit(lambda: get_worker().name).result(timeout=120),
    "folder": os.getcwd(),
    "server": os.getppid(),
    "secrets": [name for name, text in os.environ.items() if "PRIVATE KEY" in text],
}))
"""


@pytest.fixture(scope="module")
def cluster(sim_environ):
    with Cluster(
        "notes",
        n_workers=1,
        wait_for_workers=True,
        max_workers=2,
        use_dashboard_https=True,
        jupyter=True,
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def browser():
    with chromium.opened() as browser:
        yield browser


@pytest.fixture
def page(browser):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(HANG_SECONDS * 1000)
    yield context.new_page()
    context.close()


def status_of(link, path, **headers):
    """Return the HTTP status of a path below a link's server, without a browser's cookies."""
    base = link.partition("/jupyter/")[0].partition("/status")[0]
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    request = urllib.request.Request(base + path, headers=headers)
    try:
        return urllib.request.urlopen(request, timeout=HANG_SECONDS, context=tls).status
    except urllib.error.HTTPError as error:
        with error:
            return error.code


def test_a_cell_runs_with_a_client_of_the_cluster(page, cluster, sim):
    open_notebook(page, cluster.jupyter_link)
    told = json.loads(run_cell(page, CELL))
    attachment = Workspace.load().deployment("notes").attach(timeout_seconds=HANG_SECONDS)
    assert told["address"] == attachment.scheduler.private_address
    with Client(cluster) as client:
        (worker,) = client.scheduler_info(n_workers=-1)["workers"].values()
        # The notebook's client doesn't keep the cluster running, its open page does.
        assert told["server"] != client.run_on_scheduler(os.getpid)
        names = client.run_on_scheduler(lambda dask_scheduler: list(dask_scheduler.clients))
        assert sum(name.startswith("Client-notebook-") for name in names) == 1
    assert told["worker"] == worker["name"]
    assert told["folder"].endswith("/var/lib/terradask/notebooks")
    assert told["secrets"] == []
    # The kernel's port takes what its forked processes print, and tells nothing.
    assert [address for address, _ in listening(told["server"])] == ["127.0.0.1"]
    sockets = {Path(path).name[:7] for path in listening_files(told["server"])}
    assert sockets == {"kernel-", "server."}
    host = sim.state_dir / "hosts" / attachment.scheduler.instance_id / "root"
    assert (host / "run/terradask/jupyter/server.sock").stat().st_mode & 0o777 == 0o600
    assert (host / "run/terradask/jupyter").stat().st_mode & 0o777 == 0o700
    assert (host / "var/lib/terradask/notebooks/Untitled.ipynb").exists()


def test_it_opens_with_its_own_token_alone(page, cluster):
    link, watching = cluster.jupyter_link, cluster.dashboard_link
    token, token_of_dashboard = link.partition("token=")[2], watching.split("/")[3]
    assert len(token_of_dashboard) == 22
    assert "token" not in repr(cluster)
    assert status_of(link, "/jupyter/api/kernels") == 403
    assert status_of(link, f"/jupyter/lab?terradask-token={token_of_dashboard}") == 403
    assert status_of(link, "/jupyter/lab?terradask-token=guessed") == 403
    page.goto(link)
    page.wait_for_url("**/jupyter/lab")
    (cookie,) = [each for each in page.context.cookies() if each["value"] == token]
    assert (cookie["httpOnly"], cookie["sameSite"], cookie["path"]) == (True, "Strict", "/jupyter")
    with_cookie = {"Cookie": f"{cookie['name']}={token}"}
    assert status_of(link, "/jupyter/api/kernels", **with_cookie) == 200
    # Neither a page of another site, nor another name that is made to lead here.
    other = {"Origin": "http://127.0.0.1:1", **with_cookie}
    assert status_of(link, "/jupyter/api/kernels", **other) == 403
    assert status_of(link, "/jupyter/api/kernels", Host="evil.example", **with_cookie) == 403
    # Nor does it open the dashboard.
    root = watching.replace(f"/{token_of_dashboard}", "")
    assert status_of(root, "/status", **with_cookie) == 403
    assert status_of(root, f"/{token}/status", **with_cookie) == 403


def test_the_shared_dashboards_link_opens_no_notebook(browser, cluster):
    shared = cluster.shared_dashboard
    token, watching = shared.jupyter_link.partition("token=")[2], shared.link.partition("token=")[2]
    assert token != watching
    assert token not in repr(shared)
    path = "/jupyter/lab?terradask-token="
    assert status_of(shared.jupyter_link, path + watching) == 403
    assert status_of(shared.jupyter_link, "/jupyter/api/kernels") == 403
    with browser.new_context(ignore_https_errors=True) as trusting:
        trusting.set_default_timeout(HANG_SECONDS * 1000)
        theirs = trusting.new_page()
        theirs.goto(shared.link)
        theirs.wait_for_url("**/status")
        base = shared.link.partition("/status")[0]
        assert theirs.goto(f"{base}/jupyter/api/kernels").status == 403
        open_notebook(theirs, shared.jupyter_link)
        assert run_cell(theirs, "print(6 * 7)") == "42\n"
        (cookie,) = [each for each in trusting.cookies() if each["value"] == token]
        assert (cookie["secure"], cookie["httpOnly"]) == (True, True)


def test_the_command_serves_it_until_ctrl_c(page, cluster, sim):
    command = [sys.executable, "-m", "terradask", "jupyter", "notes"]
    shared = subprocess.run(
        [*command, "--shared"], env=sim.environ, capture_output=True, text=True, check=True
    )
    assert shared.stdout.strip() == cluster.shared_dashboard.jupyter_link
    assert cluster.shared_dashboard.fingerprint in shared.stderr
    with subprocess.Popen(
        command, env=sim.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            open_notebook(page, running.stdout.readline().strip())
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(HANG_SECONDS) == 0
        assert "keeps running" in running.stderr.read()


def test_an_open_kernel_keeps_the_cluster_and_an_abandoned_one_does_not(browser, sim_environ):
    options = {"idle_timeout": "20 seconds", "no_client_timeout": False, "max_workers": 1}
    with Cluster("left", n_workers=0, jupyter=True, **options) as cluster:
        with Client(cluster) as client:
            # A task that waits keeps the cluster until there is a kernel, however long that takes.
            waiting = client.submit(int)
            context = browser.new_context()
            context.set_default_timeout(HANG_SECONDS * 1000)
            page = context.new_page()
            open_notebook(page, cluster.jupyter_link)
            waiting.cancel()
        # Its client alone, which does nothing, would not keep it.
        run_cell(page, "from distributed import Client; client = Client(); print(1)")
        page.wait_for_timeout(30_000)
        assert cluster.status.name == "running"
        assert Workspace.load().deployment("left").status().state == "running"
        context.close()

        # A client that connects would be work.
        status = Workspace.load().deployment("left").status
        assert eventually(lambda: status().why_ended).startswith("idle for 20 seconds")
