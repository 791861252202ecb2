"""What the pipeline asks of GitLab: comment on the merge request, fetch the plan that was reviewed.
Standard library alone.
"""

import json
import os
import sys
import urllib.request
from pathlib import Path
from typing import Any

# GitLab sets the first three; the token is the project's, a masked variable.
API = os.environ["CI_API_V4_URL"]
PROJECT = f"projects/{os.environ['CI_PROJECT_ID']}"
COMMIT = os.environ["CI_COMMIT_SHA"]
TOKEN = os.environ["GITLAB_API_TOKEN"]

PAGE_SIZE = 100


def ask(method: str, path: str, body: dict[str, Any] | None = None) -> bytes:
    """Call GitLab's REST API, and return its answer."""
    request = urllib.request.Request(
        f"{API}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"PRIVATE-TOKEN": TOKEN, "Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        content: bytes = answer.read()
    return content


def pages(path: str) -> list[dict[str, Any]]:
    """Return every item of a list that comes in pages."""
    found: list[dict[str, Any]] = []
    number = 1
    while True:
        page = json.loads(ask("GET", f"{path}?per_page={PAGE_SIZE}&page={number}"))
        found += page
        if len(page) < PAGE_SIZE:
            return found
        number += 1


def comment(report: Path) -> None:
    """Put report.md onto the merge request: into its own note where there is one, which its first
    line tells.
    """
    notes = f"{PROJECT}/merge_requests/{os.environ['CI_MERGE_REQUEST_IID']}/notes"
    text = (report / "report.md").read_text(encoding="utf-8")
    marker = text.partition("\n")[0]
    me = json.loads(ask("GET", "user"))["id"]
    own = [
        note
        for note in pages(notes)
        if note["author"]["id"] == me and note["body"].startswith(marker)
    ]
    if own:
        ask("PUT", f"{notes}/{own[0]['id']}", {"body": text})
    elif (
        json.loads((report / "report.json").read_text(encoding="utf-8"))["verdict"] != "no changes"
    ):
        ask("POST", notes, {"body": text})


def reviewed_plan(job: str) -> None:
    """Fetch plan.sealed of the merge request that this commit merged, from the last pipeline of its
    last commit.
    """
    merged = [
        m
        for m in json.loads(ask("GET", f"{PROJECT}/repository/commits/{COMMIT}/merge_requests"))
        if m["state"] == "merged"
    ]
    if not merged:
        sys.exit(
            f"{COMMIT} comes from no merge request: nothing was reviewed, so nothing is applied"
        )
    request = merged[0]
    pipelines = [
        p
        for p in pages(f"{PROJECT}/merge_requests/{request['iid']}/pipelines")
        if p["sha"] == request["sha"] and p["status"] == "success"
    ]
    if not pipelines:
        sys.exit(
            f"merge request {request['iid']} has no plan of its last commit, {request['sha']}: "
            "nothing is applied"
        )
    jobs = json.loads(
        ask(
            "GET",
            f"{PROJECT}/pipelines/{max(p['id'] for p in pipelines)}/jobs?per_page={PAGE_SIZE}",
        )
    )
    planned = next(j["id"] for j in jobs if j["name"] == job)
    Path("plan.sealed").write_bytes(ask("GET", f"{PROJECT}/jobs/{planned}/artifacts/plan.sealed"))


if __name__ == "__main__":
    verb, argument = sys.argv[1:]
    if verb == "comment":
        comment(Path(argument))
    elif verb == "reviewed-plan":
        reviewed_plan(argument)
