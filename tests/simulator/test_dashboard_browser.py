"""The dashboard in a real browser: through the door on loopback, and over HTTPS at the scheduler's
host.
"""

import hashlib
import http.server
import signal
import ssl
import subprocess
import sys
import threading
import time

import pytest
from distributed import Client
from playwright.sync_api import Error

from terradask import Cluster, Workspace

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM, ROWS, keep
from ..waiting import HANG_SECONDS

pytestmark = [pytest.mark.simulator, pytest.mark.life, NEEDS_CHROMIUM]


@pytest.fixture(scope="module")
def cluster(sim_environ):
    with Cluster(
        "seen",
        n_workers=1,
        wait_for_workers=True,
        max_workers=4,
        use_dashboard_https=True,
        scheduler_options={"dashboard": True},
    ) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    with Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def browser():
    with chromium.opened() as browser:
        yield browser


@pytest.fixture
def complaints():
    return []


@pytest.fixture
def page(browser, complaints):
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(HANG_SECONDS * 1000)
    page = context.new_page()
    page.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("requestfailed", lambda request: complaints.append(f"{request.url}: {request.failure}"))
    yield page
    context.close()


@pytest.fixture(scope="module")
def other_site():
    """Somebody else's site on this machine, under its port; the page that it shows is the attribute
    `content`.
    """

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(server.content.encode())

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.content = "<p>a site</p>"
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def watch_work(page, client):
    """Let the cluster work until the page's plots show more than before, and look different."""
    plot = page.locator(".bk-Canvas").first
    plot.wait_for()
    before, looked = page.evaluate(ROWS), page.screenshot()
    # Dask clears what is older than 20 s before it adds more.
    numbers = range(before + 100)
    futures = client.map(lambda n: time.sleep(0.01) or n, numbers, pure=False)
    page.wait_for_function(f"() => ({ROWS})() > {before} + 20")
    assert client.gather(futures) == list(numbers)
    assert page.screenshot() != looked


def test_the_link_opens_a_dashboard_that_lives(page, cluster, client, complaints, tmp_path):
    assert client.dashboard_link == cluster.dashboard_link
    assert cluster.dashboard_link in cluster._repr_html_()
    assert "token" not in repr(cluster)
    page.goto(cluster.dashboard_link)
    page.wait_for_url("**/status")
    watch_work(page, client)
    keep(page, "dashboard.png", tmp_path)
    page.get_by_role("link", name="Workers").first.click()
    page.wait_for_url("**/workers")
    for worker in client.scheduler_info(n_workers=-1)["workers"].values():
        page.get_by_text(worker["name"]).first.wait_for()
    base = page.url.rpartition("/")[0]
    for name in ("graph", "profile"):
        page.goto(f"{base}/{name}")
        page.locator(".bk-Canvas").first.wait_for()
    assert complaints == []


def test_a_link_on_another_sites_page_opens_it_too(page, cluster, other_site):
    other_site.content = f'<a href="{cluster.dashboard_link}">the dashboard</a>'
    page.goto(f"http://localhost:{other_site.server_port}/")
    page.get_by_role("link").click()
    page.wait_for_url("**/status")
    page.locator(".bk-Canvas").first.wait_for()


def test_without_the_token_or_from_another_page_nothing_is_seen(page, cluster, other_site):
    base, _, token = cluster.dashboard_link.partition("/status")[0].rpartition("/")
    assert page.goto(f"{base}/status").status == 403
    assert page.goto(f"{base}/guessed/status").status == 403
    page.goto(cluster.dashboard_link)
    page.locator(".bk-Canvas").first.wait_for()
    assert page.goto(f"{base}/{token}/health").status == 200
    # Nothing of who is in helps another page: there is no cookie that its browser would send.
    assert page.context.cookies() == []
    page.goto(f"http://127.0.0.1:{other_site.server_port}/")
    for target in (f"{base}/health", f"{base}/{token}/health"):
        with page.expect_response(target) as asked:
            page.evaluate(
                (
                    "(address) => fetch(address, {method: 'POST', mode: 'no-cors', credentials: "
                    "'include'})"
                ),
                target,
            )
        assert asked.value.status == 403


def test_a_page_that_it_leads_to_does_not_learn_its_address(page, cluster, other_site):
    page.goto(cluster.dashboard_link)
    page.locator(".bk-Canvas").first.wait_for()
    with page.expect_response(asked_of(other_site)) as answered:
        page.evaluate("(address) => location.assign(address)", asked_of(other_site))
    assert "referer" not in answered.value.request.all_headers()
    # A context that is closed in the middle of a navigation may never close.
    page.wait_for_url(asked_of(other_site))


def asked_of(site):
    return f"http://127.0.0.1:{site.server_port}/"


def test_the_hosts_port_refuses_whoever_has_no_certificate(page, cluster):
    attachment = Workspace.load().deployment(cluster.name).attach(timeout_seconds=HANG_SECONDS)
    host = attachment.address(public=True).partition("://")[2].rpartition(":")[0]
    address = f"{host}:{attachment.scheduler.dashboard_port}/health"
    for scheme in ("http", "https"):
        with pytest.raises(Error, match="ERR_"):
            page.goto(f"{scheme}://{address}")
        asked = subprocess.run(
            ["curl", "-sk", "--max-time", "10", f"{scheme}://{address}"],
            check=False,
            capture_output=True,
        )
        assert asked.returncode != 0
        assert asked.stdout == b""


def test_people_without_terradask_open_it_over_https(browser, page, cluster, client, sim):
    shared = cluster.shared_dashboard
    base, _, token = shared.link.partition("/status?terradask-token=")
    # A browser that trusts nobody yet asks its user.
    with pytest.raises(Error, match="ERR_CERT_AUTHORITY_INVALID"):
        page.goto(shared.link)
    host, _, port = base.partition("://")[2].partition(":")
    served = ssl.PEM_cert_to_DER_cert(ssl.get_server_certificate((host, int(port))))
    assert shared.fingerprint == hashlib.sha256(served).hexdigest()
    with browser.new_context(ignore_https_errors=True) as trusting:
        trusting.set_default_timeout(HANG_SECONDS * 1000)
        theirs = trusting.new_page()
        assert theirs.goto(f"{base}/status").status == 403
        theirs.goto(shared.link)
        theirs.wait_for_url("**/status")
        watch_work(theirs, client)
        (cookie,) = trusting.cookies()
        assert (cookie["value"], cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (
            token,
            True,
            True,
            "Strict",
        )
        with pytest.raises(Error, match="ERR_"):
            theirs.goto(base.replace("https", "http"))
    assert token not in repr(shared)
    assert [
        path
        for path in sim.state_dir.rglob("*")
        if path.is_file() and token.encode() in path.read_bytes()
    ] == []


def test_the_command_opens_it_until_ctrl_c(page, cluster, sim):
    command = [sys.executable, "-m", "terradask", "dashboard", "seen"]
    shared = subprocess.run(
        [*command, "--shared"], env=sim.environ, capture_output=True, text=True, check=True
    )
    assert shared.stdout.strip() == cluster.shared_dashboard.link
    assert cluster.shared_dashboard.fingerprint in shared.stderr
    with subprocess.Popen(
        command, env=sim.environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as running:
        try:
            page.goto(running.stdout.readline().strip())
            page.wait_for_url("**/status")
            page.locator(".bk-Canvas").first.wait_for()
        finally:
            running.send_signal(signal.SIGINT)
        assert running.wait(HANG_SECONDS) == 0
        assert "keeps running" in running.stderr.read()
