"""What the workflows ask of GitHub: comment on the pull request, upload findings, find the plan
that was reviewed.

Standard library alone: it runs before anything is installed, and where a token may write.
"""

import base64
import gzip
import json
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

# GitHub's runners set the first three; the workflow hands over the token.
API = os.environ["GITHUB_API_URL"]
REPOSITORY = os.environ["GITHUB_REPOSITORY"]
COMMIT = os.environ["GITHUB_SHA"]
TOKEN = os.environ["GITHUB_TOKEN"]

PAGE_SIZE = 100


def call(method: str, path: str, body: dict[str, Any] | None = None) -> Any:
    """Call GitHub's REST API, and return its answer."""
    request = urllib.request.Request(
        f"{API}/repos/{REPOSITORY}/{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={
            "Authorization": f"Bearer {TOKEN}",
            "Accept": "application/vnd.github+json",
            "X-GitHub-Api-Version": "2022-11-28",
        },
    )
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def pages(path: str) -> list[dict[str, Any]]:
    """Return every item of a list that comes in pages."""
    found: list[dict[str, Any]] = []
    number = 1
    while True:
        page = call("GET", f"{path}?per_page={PAGE_SIZE}&page={number}")
        found += page
        if len(page) < PAGE_SIZE:
            return found
        number += 1


def comment(report: Path) -> None:
    """Put report.md onto the pull request: into its own comment where there is one, which its first
    line tells.
    """
    pull_request = os.environ["PULL_REQUEST"]
    text = (report / "report.md").read_text(encoding="utf-8")
    marker = text.partition("\n")[0]
    own = [
        c
        for c in pages(f"issues/{pull_request}/comments")
        if c["user"]["type"] == "Bot" and c["body"].startswith(marker)
    ]
    if own:
        call("PATCH", f"issues/comments/{own[0]['id']}", {"body": text})
    elif (
        json.loads((report / "report.json").read_text(encoding="utf-8"))["verdict"] != "no changes"
    ):
        call("POST", f"issues/{pull_request}/comments", {"body": text})


def sarif(report: Path) -> None:
    """Upload findings to code scanning; a repository without it is told so, which is no failure."""
    for path in sorted(report.glob("**/*.sarif")):
        packed = base64.b64encode(gzip.compress(path.read_bytes())).decode()
        try:
            call(
                "POST",
                "code-scanning/sarifs",
                {"commit_sha": COMMIT, "ref": os.environ["GITHUB_REF"], "sarif": packed},
            )
        except urllib.error.HTTPError as error:
            if error.code not in (403, 404):
                raise
            print(
                f"::notice::no code scanning in this repository: {path.name} is in the report alone"
            )


def reviewed_run(workflow: str) -> None:
    """Say which run planned what this commit merged, as the step's output run-id."""
    merged = [
        p
        for p in call("GET", f"commits/{COMMIT}/pulls")
        if p["merge_commit_sha"] == COMMIT and p["merged_at"]
    ]
    if not merged:
        sys.exit(
            f"{COMMIT} comes from no pull request: nothing was reviewed, so nothing is applied"
        )
    head = merged[0]["head"]["sha"]
    runs = call(
        "GET",
        f"actions/workflows/{workflow}/runs?head_sha={head}&event=pull_request&status=success&per_page={PAGE_SIZE}",
    )
    if not runs["workflow_runs"]:
        sys.exit(
            f"pull request {merged[0]['number']} has no plan of its last commit, {head}: "
            "nothing "
            "is applied"
        )
    with Path(os.environ["GITHUB_OUTPUT"]).open("a", encoding="utf-8") as output:
        output.write(f"run-id={max(run['id'] for run in runs['workflow_runs'])}\n")


if __name__ == "__main__":
    verb, argument = sys.argv[1:]
    if verb == "comment":
        comment(Path(argument))
    elif verb == "sarif":
        sarif(Path(argument))
    elif verb == "reviewed-run":
        reviewed_run(argument)
