"""JupyterLab's Dask extension in a real browser: its panels show a cluster's dashboard, and it
makes clusters.
"""

import time

import pytest
from distributed import Client

from terradask import Cluster, Workspace

from .. import browser as chromium
from ..browser import NEEDS_CHROMIUM, ROWS, keep
from ..jupyterlab import lab
from ..waiting import HANG_SECONDS, eventually

pytestmark = [pytest.mark.simulator, pytest.mark.life, NEEDS_CHROMIUM]

#: The tests' schedulers have no dashboard unless it is asked for.
SHOWN = {"dashboard": True}

#: As docs/dashboard.md has it, with a name.
CONFIG = """\
distributed:
  dashboard:
    link: "/proxy/{port}/status"
labextension:
  factory:
    module: terradask
    class: Cluster
    args: []
    kwargs:
      name: made
      n_workers: 1
      max_workers: 2
      scheduler_options:
        dashboard: true
"""


@pytest.fixture
def page(sim_environ, tmp_path):
    """JupyterLab on this machine, with the extension."""
    config, notebooks = tmp_path / "dask", tmp_path / "notebooks"
    config.mkdir()
    notebooks.mkdir()
    (config / "terradask.yaml").write_text(CONFIG)
    with lab(notebooks, tmp_path, DASK_CONFIG=str(config)) as address, chromium.opened() as browser:
        page = browser.new_page(viewport={"width": 1100, "height": 700})
        page.set_default_timeout(HANG_SECONDS * 1000)
        page.goto(address.format("/lab"))
        page.locator(".jp-SideBar [data-id='dask-dashboard-launcher']").click()
        yield page


def open_panel(page):
    """Open the task stream's panel, and return its frame."""
    page.get_by_text("Task Stream", exact=True).first.click()
    frame = page.frame_locator(".dask-DaskDashboard-widget iframe")
    frame.locator(".bk-Canvas").first.wait_for()
    return frame


def test_its_panels_are_filled_by_a_link(page, tmp_path):
    with Cluster(
        "paneled", n_workers=1, max_workers=2, wait_for_workers=True, scheduler_options=SHOWN
    ) as cluster:
        page.get_by_placeholder("Dask dashboard URL").fill(cluster.dashboard_link)
        page.keyboard.press("Enter")
        open_panel(page)
        (panel,) = [each for each in page.frames if "individual" in each.url]
        with Client(cluster) as client:
            tasks = client.map(lambda n: time.sleep(0.1) or n, range(200), pure=False)
            eventually(lambda: panel.evaluate(ROWS) > 40)
            keep(page, "labextension.png", tmp_path)
            client.gather(tasks)


def test_it_makes_a_cluster_and_shows_its_panels(page):
    page.get_by_text("NEW", exact=True).click()
    page.locator(".dask-ClusterListingItem").first.wait_for()
    try:
        status = Workspace.load().deployment("made").status
        assert status().state == "running"
        page.locator(".dask-ClusterListingItem").first.dblclick()
        open_panel(page)
        page.get_by_text("SHUTDOWN", exact=True).click()
        eventually(lambda: not Workspace.load().deployment("made").exists)
    finally:
        if Workspace.load().deployment("made").exists:
            Workspace.load().destroy_cluster("made")
