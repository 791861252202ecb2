"""JupyterLab in a browser: what a person does there."""

from playwright.sync_api import Page


def open_notebook(page: Page, link: str) -> None:
    """Open a new notebook, with a kernel."""
    page.goto(link)
    # The page that takes the token leads on by itself.
    page.wait_for_url(lambda url: "/jupyter/lab" in url and "token" not in url)
    # Without what an earlier page had open.
    page.goto(page.url.partition("/lab")[0] + "/lab?reset")
    page.locator(".jp-LauncherCard[data-category='Notebook']").first.click()
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.wait_for()
    page.get_by_text("Python 3 (ipykernel) | Idle").wait_for()


def run_cell(page: Page, code: str) -> str:
    """Run code in the first cell, and return what it prints."""
    page.locator(".jp-Notebook .jp-Cell .cm-content").first.fill(code)
    page.locator("[data-command='notebook:run-cell-and-select-next']").first.click()
    printed = page.locator(".jp-OutputArea-output pre").first
    printed.wait_for()
    return printed.inner_text()
