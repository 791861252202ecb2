"""What a run did, on the embedded AWS: of clusters that run, ended by themselves, are stopped or
gone.
"""

from __future__ import annotations

import http.server
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Client
from playwright.sync_api import Browser, Page

from terradask import Cluster, Workspace
from terradask._aws.s3 import ObjectStore
from terradask._observe import advice
from terradask._observe.advice import Advice
from terradask._observe.reports.report import RunReport
from terradask.errors import AccessDenied, ReportNotFound
from terradask_simulator import Simulator

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM
from ..command import in_this_process
from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: Tabs of the report that draw something.
TABS = ("Task Stream", "System", "Worker Profile (compute)", "Bandwidth (Workers)")
#: How many rows of data the report's plots have.
ROWS = """() => {
    const sources = Bokeh.documents.flatMap((each) => [...each._all_models.values()])
        .filter((model) => model.type === "ColumnDataSource")
    const most = (name) => Math.max(0, ...sources
        .filter((source) => name in source.data).map((source) => source.get_length() ?? 0))
    return {"task stream": most("worker_thread"), "profile": most("line_number")}
}"""
COMMENT = "the only line with these words"


def rest() -> None:
    time.sleep(1.2)


def a_task_with_a_name(number: int) -> int:
    rest()  # the only line with these words
    return number


def work(cluster: Cluster, tasks: int = 8) -> None:
    with Client(cluster) as client:
        client.gather(client.map(a_task_with_a_name, range(tasks), pure=False))


def kept(name: str) -> RunReport | None:
    try:
        return Workspace.load().deployment(name).report()
    except ReportNotFound:
        return None


def states(report: RunReport) -> list[str]:
    return [event.state for event in report.events if event.subject == "cluster"]


@pytest.fixture(scope="module", autouse=True)
def wanted(sim_environ: dict[str, str], sim: Simulator) -> Iterator[None]:
    with (
        pytest.MonkeyPatch.context() as patch,
        # A busy machine takes longer than a host may.
        sim.time_hosts(performance_report_seconds=60.0, scheduler_close_seconds=60.0),
    ):
        patch.setenv("TERRADASK_CLUSTER__PERFORMANCE_REPORT", "without_source")
        yield


@pytest.fixture(scope="module")
def destroyed(wanted: None, tmp_path_factory: pytest.TempPathFactory) -> RunReport:
    """The report of a cluster that was made, worked and is destroyed."""
    with Cluster("did", n_workers=2, wait_for_workers=True, max_workers=4) as cluster:
        work(cluster)
        asked = cluster.report()
        assert "a_task_with_a_name" in asked.html
        assert states(asked) == ["starting", "running"]
        work(cluster)
    # Closed, the object reads what is kept.
    last = cluster.report()
    assert (last.run, last.boot) == (asked.run, 1)
    assert last.at >= asked.at
    return last


def test_a_destroyed_clusters_report_and_events_are_kept(
    destroyed: RunReport, sim: Simulator, tmp_path: Path
) -> None:
    assert states(destroyed) == ["starting", "running", "stopped"]
    assert destroyed.events[-1].reason.startswith("destroyed by arn:")
    assert destroyed.html.count("a_task_with_a_name") >= 16
    # It was made before they left.
    assert "Workers: 2" in destroyed.html
    # What the workers' processes did is there, without the text of their lines.
    assert "test_run_reports.py" in destroyed.html
    assert COMMENT not in destroyed.html
    command = in_this_process(
        "report", "did", "--json", "--output", str(tmp_path), environ=sim.environ, folder=tmp_path
    )
    told = json.loads(command.stdout)
    assert (told["run"], told["events"]) == (destroyed.run, len(destroyed.events))
    page = Path(told["path"])
    assert page == tmp_path / f"did-{destroyed.run}.html"
    assert page.stat().st_mode & 0o077 == 0
    listed = in_this_process("report", "did", "--list", environ=sim.environ, folder=tmp_path)
    assert listed.stdout.splitlines()[1].split()[:2] == [destroyed.run, "1"]
    missing = in_this_process(
        *("report", "did", "--run", "20200101T000000Z-0a"), environ=sim.environ, folder=tmp_path
    )
    assert missing.returncode == 1
    assert destroyed.run in missing.stderr


def test_the_rights_are_in_the_policies_of_those_who_run_clusters(
    destroyed: RunReport, sim: Simulator, policies: dict[str, list[dict[str, Any]]], tmp_path: Path
) -> None:
    for caller in ("user", "ongoing"):
        environ = sim.environ_of(caller, *policies[caller])
        written = in_this_process("report", "did", environ=environ, folder=tmp_path)
        assert written.returncode == 0, written.stderr
        assert Path(tmp_path / written.stdout.strip()).exists()
        with sim.acting_as(caller, *policies[caller]):
            store = Workspace.load().deployment("did")._record.report_store
            store.keep_events({"run_id": destroyed.run, "format": 1, "events": []})
            own = ObjectStore(Workspace.load().aws, Workspace.load().bucket, "reports/did/")
            with pytest.raises(AccessDenied):
                own.write(f"{destroyed.run}/1.html.gz", b"another")
            with pytest.raises(AccessDenied):
                own.delete(f"{destroyed.run}/1.html.gz")
    with sim.acting_as("ci", *policies["ci"]), pytest.raises(AccessDenied):
        Workspace.load().deployment("did").report()


def test_a_cluster_that_ends_by_itself_keeps_its_report_with_source_if_asked(
    sim_environ: dict[str, str],
) -> None:
    workspace = Workspace.load()
    workspace.apply(workspace.plan_cluster("idle", performance_report="with_source"))
    # It has work before its worker comes, which may take longer than it may be idle.
    with Cluster("idle", n_workers=1, shutdown_on_close=False, idle_timeout="15s") as cluster:
        work(cluster)
    report = eventually(lambda: kept("idle"))
    assert COMMENT in report.html
    deployment = workspace.deployment("idle")
    eventually(lambda: deployment.status().state == "ended" or None)
    assert states(deployment.report()) == ["starting", "running", "ended"]
    workspace.destroy_cluster("idle")


def test_a_cluster_stopped_from_elsewhere_keeps_its_report(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path
) -> None:
    with Cluster("away", n_workers=1, wait_for_workers=True, shutdown_on_close=False) as cluster:
        work(cluster)
    stopped = in_this_process("stop", "away", environ=sim.environ, folder=tmp_path)
    assert stopped.returncode == 0, stopped.stderr
    report = eventually(lambda: kept("away"))
    assert report.html.count("a_task_with_a_name") >= 8
    assert states(report) == ["starting", "running", "stopped"]
    Workspace.load().destroy_cluster("away")
    assert states(kept("away")) == ["starting", "running", "stopped"]


#: What a report could try, being HTML from a host that runs tasks' code.
HOSTILE = """<!DOCTYPE html><html><head>
<script>
try { parent.document.title = "out" } catch (error) {}
try { localStorage.setItem("x", "y") } catch (error) {}
try { top.location = "SITE/top" } catch (error) {}
fetch("SITE/fetch", {mode: "no-cors"}).catch(() => 0)
new Image().src = "SITE/image"
const beacon = navigator.sendBeacon("SITE/beacon")
window.open("SITE/window")
const form = document.createElement("form")
form.action = "SITE/form"
document.documentElement.append(form)
setTimeout(() => form.submit(), 300)
setTimeout(() => { location = "SITE/frame" }, 600)
</script></head><body>drawn</body></html>"""


@pytest.fixture
def site() -> Iterator[Site]:
    with Site() as running:
        yield running


class Site:
    """Another site on this machine, and the paths that it was asked for."""

    def __init__(self) -> None:
        asked = self.asked = list[str]()

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                asked.append(self.path)
                self.send_response(204)
                self.end_headers()

            do_POST = do_GET  # noqa: N815 - the library's own name

            def log_message(self, *_: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> Site:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium.opened() as opened:
        yield opened


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 800})
    context.set_default_timeout(HANG_SECONDS * 1000)
    yield context.new_page()
    context.close()


@NEEDS_CHROMIUM
def test_it_opens_in_a_browser_and_loads_nothing(
    destroyed: RunReport, page: Page, tmp_path: Path
) -> None:
    complaints: list[str] = []
    asked: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    address = destroyed.save(tmp_path).as_uri()
    page.goto(address)
    frame = page.frame_locator("iframe")
    for tab in TABS:
        frame.get_by_text(tab, exact=True).click()
        frame.locator("canvas").locator("visible=true").first.wait_for()
    rows = page.frames[1].evaluate(ROWS)
    assert rows["task stream"] >= 16
    assert rows["profile"] >= 3
    page.locator("summary").click()
    assert "destroyed by arn:" in page.locator("tr").last.inner_text()
    assert complaints == []
    assert {url for url in asked if not url.startswith("data:")} == {address}


@NEEDS_CHROMIUM
def test_a_hostile_report_reaches_nothing(
    destroyed: RunReport, page: Page, site: Site, tmp_path: Path
) -> None:
    script = "<script>document.title = 'out'</script>"
    hostile = replace(
        destroyed,
        html=HOSTILE.replace("SITE", site.address) + f'"></iframe>{script}',
        events=(replace(destroyed.events[0], reason=script),),
    )
    address = hostile.save(tmp_path).as_uri()
    page.goto(address)
    page.frame_locator("iframe").get_by_text("drawn").wait_for()
    page.wait_for_timeout(1500)
    assert (page.title(), page.url) == (f"did, run {destroyed.run}", address)
    assert site.asked == []
    assert len(page.context.pages) == 1
    # By itself, it would have.
    hostile.save(tmp_path).write_text(hostile.html)
    page.goto(address, wait_until="commit")
    eventually(lambda: {"/fetch", "/image", "/beacon"} <= set(site.asked))


def of_memory(report: RunReport | None) -> Advice | None:
    found = () if report is None else report.advice
    return next((one for one in found if one.rule == "memory"), None)


def test_a_run_that_used_little_memory_gets_its_advice_while_it_runs_and_after_its_end(
    sim_environ: dict[str, str],
    sim: Simulator,
    policies: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    environ = sim.environ_of("user", *policies["user"])
    with (
        sim.time_hosts(
            usage_seconds=0.5,
            usage_kept_seconds=0.5,
            usage_wait_seconds=60.0,
            performance_report_seconds=60.0,
            scheduler_close_seconds=60.0,
        ),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(advice, "LEAST_SECONDS", 2.0)
        with Cluster(
            "roomy", n_workers=1, wait_for_workers=True, shutdown_on_close=False
        ) as cluster:
            work(cluster)
            found = eventually(lambda: of_memory(cluster.report()))
        # Of m6i.xlarge, with 16 GiB.
        assert found.change.splitlines()[0] == "[clusters.roomy]"
        assert 'worker_memory = "8 GiB"' in found.change
        shown = in_this_process("status", "roomy", "--json", environ=environ, folder=tmp_path)
        assert found.change in [each["change"] for each in json.loads(shown.stdout)["advice"]]
        text = in_this_process("status", "roomy", environ=environ, folder=tmp_path).stdout
        assert '    worker_memory = "8 GiB"' in text.splitlines()
        stopped = in_this_process("stop", "roomy", environ=environ, folder=tmp_path)
        assert stopped.returncode == 0, stopped.stderr
        eventually(lambda: kept("roomy"))
        command = in_this_process("report", "roomy", environ=environ, folder=tmp_path)
        assert '    worker_memory = "8 GiB"' in command.stderr.splitlines()
        page = (tmp_path / command.stdout.strip()).read_text()
        assert "a smaller machine has enough" in page
        Workspace.load().destroy_cluster("roomy")
        assert of_memory(kept("roomy")) is not None
