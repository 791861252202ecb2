"""The scripts of the example pipelines, run as the pipelines run them: a code host on loopback, AWS
embedded.
"""

from __future__ import annotations

import base64
import contextlib
import gzip
import json
import os
import re
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import yaml

from terradask_simulator import Simulator

from ..command import run_checked
from ..quick_provider import QuickProvider

pytestmark = [pytest.mark.simulator, pytest.mark.slow]

EXAMPLES = Path(__file__).parents[2] / "examples"
TOKEN = "a-token-of-this-job"
MERGE, HEAD = "c0ffee" * 6 + "c0ff", "beef" * 10
BOT = {"type": "Bot", "id": 7}
PERSON = {"type": "User", "id": 8}


@dataclass
class CodeHost:
    """What both code hosts' APIs say here: comments that are kept, and answers that are fixed."""

    url: str = ""
    comments: list[dict[str, Any]] = field(default_factory=list)
    answers: dict[str, Any] = field(default_factory=dict)
    posted: list[tuple[str, str, Any]] = field(default_factory=list)
    code_scanning: bool = True

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        path, query = urlsplit(target).path, parse_qs(urlsplit(target).query)
        if body is not None:
            self.posted.append((method, path, body))
        if re.search(r"/(comments|notes)$", path):
            return self._comments(method, body, query)
        if method in ("PATCH", "PUT"):
            (comment,) = [c for c in self.comments if path.endswith(f"/{c['id']}")]
            comment.update(body)
            return 200, comment
        if path.endswith("/code-scanning/sarifs"):
            return (
                (202, {"id": "1"})
                if self.code_scanning
                else (403, {"message": "Advanced Security must be enabled"})
            )
        found = next(
            (answer for ending, answer in self.answers.items() if path.endswith(ending)), None
        )
        return (404, {"message": "Not Found"}) if found is None else (200, found)

    def _comments(self, method: str, body: Any, query: dict[str, list[str]]) -> tuple[int, Any]:
        if method == "POST":
            self.comments.append({"id": len(self.comments) + 1, "user": BOT, "author": BOT, **body})
            return 201, self.comments[-1]
        size, page = int(query["per_page"][0]), int(query["page"][0])
        return 200, self.comments[size * (page - 1) : size * page]


@pytest.fixture
def host() -> Iterator[CodeHost]:
    """A code host with a pull request that a person has commented on a lot."""
    host = CodeHost()
    host.comments = [
        {"id": number, "user": PERSON, "author": PERSON, "body": "hm"} for number in range(1, 102)
    ]

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = None
            if length := int(self.headers.get("Content-Length") or 0):
                body = json.loads(self.rfile.read(length))
            allowed = TOKEN in (
                self.headers.get("Authorization", "").removeprefix("Bearer "),
                self.headers.get("PRIVATE-TOKEN"),
            )
            status, document = host.answer(self.command, self.path, body) if allowed else (401, {})
            content = document if isinstance(document, bytes) else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_arguments: Any) -> None:
            pass

    for method in ("POST", "PATCH", "PUT"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        host.url = f"http://127.0.0.1:{server.server_port}"
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        yield host
        server.shutdown()


@dataclass
class Pipeline:
    """A copy of an example's repository, and the environment of its jobs."""

    folder: Path
    environ: dict[str, str]

    def run(self, *command: str, code: int = 0) -> str:
        command = (sys.executable, *command[1:]) if command[0].startswith("python") else command
        done = run_checked(command, folder=self.folder, environ=self.environ, code=code)
        return done.stdout + done.stderr


def _pipeline(name: str, folder: Path, environ: dict[str, str]) -> Pipeline:
    shutil.copytree(EXAMPLES / name, folder, dirs_exist_ok=True)
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    return Pipeline(folder, {"PATH": path, "HOME": os.environ.get("HOME", ""), **environ})


@pytest.fixture
def github(host: CodeHost, tmp_path: Path) -> Pipeline:
    environ = {
        "GITHUB_API_URL": host.url,
        "GITHUB_REPOSITORY": "acme/clusters",
        "GITHUB_SHA": MERGE,
        "GITHUB_REF": "refs/pull/12/merge",
        "GITHUB_TOKEN": TOKEN,
        "GITHUB_OUTPUT": str(tmp_path / "output"),
        "PULL_REQUEST": "12",
    }
    return _pipeline("github-actions", tmp_path / "repository", environ)


@pytest.fixture
def gitlab(host: CodeHost, tmp_path: Path) -> Pipeline:
    environ = {
        "CI_API_V4_URL": host.url,
        "CI_PROJECT_ID": "34",
        "CI_COMMIT_SHA": MERGE,
        "CI_MERGE_REQUEST_IID": "12",
        "GITLAB_API_TOKEN": TOKEN,
    }
    host.answers["/user"] = BOT
    return _pipeline("gitlab", tmp_path / "repository", environ)


def _report(pipeline: Pipeline, *, verdict: str, text: str, about: str = "default") -> None:
    folder = pipeline.folder / "report"
    folder.mkdir(exist_ok=True)
    (folder / "report.md").write_text(
        f"<!-- terradask plan {about} 123456789012 us-east-1 -->\n{text}\n"
    )
    (folder / "report.json").write_text(json.dumps({"verdict": verdict}))


@pytest.mark.parametrize("name", ["github", "gitlab"])
def test_one_comment_is_made_and_then_updated(
    name: str, host: CodeHost, request: pytest.FixtureRequest
) -> None:
    pipeline: Pipeline = request.getfixturevalue(name)
    comment = ("python3", f"ci/{name}.py", "comment", "report")

    _report(pipeline, verdict="no changes", text="nothing")
    pipeline.run(*comment)
    assert host.posted == []

    # A person who quotes the report's first line has a comment of their own.
    host.comments[3]["body"] = (
        "<!-- terradask plan default 123456789012 us-east-1 -->\nwhat is this?"
    )
    _report(pipeline, verdict="changes", text="first")
    pipeline.run(*comment)
    _report(pipeline, verdict="changes", text="of another workspace", about="trading")
    pipeline.run(*comment)
    _report(pipeline, verdict="no changes", text="second")
    pipeline.run(*comment)

    own = [comment["body"].splitlines()[1:] for comment in host.comments if comment["user"] == BOT]
    assert own == [["second"], ["of another workspace"]]
    assert [method for method, _, _ in host.posted] == [
        "POST",
        "POST",
        {"github": "PATCH", "gitlab": "PUT"}[name],
    ]


def test_github_a_token_that_may_not_comment_is_a_failure(host: CodeHost, github: Pipeline) -> None:
    _report(github, verdict="changes", text="first")
    github.environ["GITHUB_TOKEN"] = "of somebody else"
    assert "401" in github.run("python3", "ci/github.py", "comment", "report", code=1)


def test_github_findings_are_uploaded_where_there_is_code_scanning(
    host: CodeHost, github: Pipeline
) -> None:
    (github.folder / "report").mkdir()
    (github.folder / "report/network.sarif").write_text("{}")
    github.run("python3", "ci/github.py", "sarif", "report")
    ((_, _, body),) = host.posted
    assert (body["commit_sha"], body["ref"]) == (MERGE, "refs/pull/12/merge")
    assert gzip.decompress(base64.b64decode(body["sarif"])) == b"{}"

    host.code_scanning = False
    assert "::notice::" in github.run("python3", "ci/github.py", "sarif", "report")


def test_github_the_run_that_was_reviewed_is_that_of_the_last_commit(
    host: CodeHost, github: Pipeline
) -> None:
    find = ("python3", "ci/github.py", "reviewed-run", "plan.yml")
    merged = {
        "number": 12,
        "merge_commit_sha": MERGE,
        "merged_at": "2026-11-20T05:00:00Z",
        "head": {"sha": HEAD},
    }

    host.answers[f"/commits/{MERGE}/pulls"] = []
    assert "no pull request" in github.run(*find, code=1)
    host.answers[f"/commits/{MERGE}/pulls"] = [{**merged, "merge_commit_sha": HEAD}, merged]
    host.answers["/workflows/plan.yml/runs"] = {"workflow_runs": []}
    assert "no plan of its last commit" in github.run(*find, code=1)
    host.answers["/workflows/plan.yml/runs"] = {"workflow_runs": [{"id": 5}, {"id": 9}]}
    github.run(*find)
    assert Path(github.environ["GITHUB_OUTPUT"]).read_text() == "run-id=9\n"


def test_gitlab_the_plan_that_was_reviewed_is_that_of_the_last_commit(
    host: CodeHost, gitlab: Pipeline
) -> None:
    fetch = ("python3", "ci/gitlab.py", "reviewed-plan", "plan")

    host.answers[f"/commits/{MERGE}/merge_requests"] = [{"iid": 11, "sha": HEAD, "state": "closed"}]
    assert "no merge request" in gitlab.run(*fetch, code=1)
    host.answers[f"/commits/{MERGE}/merge_requests"] = [{"iid": 12, "sha": HEAD, "state": "merged"}]
    host.answers["/merge_requests/12/pipelines"] = [
        {"id": 4, "sha": MERGE, "status": "success"},
        {"id": 5, "sha": HEAD, "status": "failed"},
    ]
    assert "no plan of its last commit" in gitlab.run(*fetch, code=1)
    host.answers["/merge_requests/12/pipelines"] += [{"id": 6, "sha": HEAD, "status": "success"}]
    host.answers["/pipelines/6/jobs"] = [{"id": 60, "name": "comment"}, {"id": 61, "name": "plan"}]
    host.answers["/jobs/61/artifacts/plan.sealed"] = b"sealed"
    gitlab.run(*fetch)
    assert (gitlab.folder / "plan.sealed").read_bytes() == b"sealed"


@pytest.mark.parametrize("script", ["apply.sh", "drift.sh"])
def test_both_pipelines_run_the_same_scripts(script: str) -> None:
    scripts = [EXAMPLES / name / "ci" / script for name in ("github-actions", "gitlab")]
    assert scripts[0].read_bytes() == scripts[1].read_bytes()
    assert all(path.stat().st_mode & 0o111 for path in scripts)


@pytest.mark.life
def test_a_plan_is_reviewed_applied_as_it_was_reviewed_and_watched(
    sim: Simulator,
    quick_provider: QuickProvider,
    policies: dict[str, list[dict[str, Any]]],
    host: CodeHost,
    github: Pipeline,
) -> None:
    quick_provider.lock(github.folder)
    settings, lock, sealed = (
        github.folder / name for name in ("terradask.toml", "terradask.lock.json", "plan.sealed")
    )
    summary = github.folder / "summary.md"
    environ = {
        **github.environ,
        "PLAN_KEY": base64.b64encode(os.urandom(32)).decode(),
        "GITHUB_STEP_SUMMARY": str(summary),
        # The network that is deployed here: its zones.
        "TERRADASK_NETWORK__ZONES": "null",
    }
    # Each job holds the policies that docs/pull-requests.md gives its role, and nothing else.
    planning = Pipeline(
        github.folder, {**sim.environ_of("pipeline-plan", *policies["ci"]), **environ}
    )
    applying = Pipeline(
        github.folder, {**sim.environ_of("pipeline-apply", *policies["ongoing"]), **environ}
    )
    # The simulator keeps locked answers elsewhere; a repository has the file.
    lock.write_text("{}")
    try:
        reviewed = settings.read_text()
        settings.write_text(f"{reviewed}\n[policy]\nmax_hourly_cost_usd = 0.01\n")
        assert "blocked by policy" in planning.run("ci/plan.sh", code=8)
        assert (github.folder / "report/report.md").exists()
        assert not sealed.exists()

        settings.write_text(reviewed)
        planning.run("ci/plan.sh")
        assert {path.name for path in (github.folder / "report").iterdir()} == {
            "report.md",
            "report.json",
            "etl.sarif",
        }
        assert not (github.folder / "plan").exists()
        github.run("python3", "ci/github.py", "comment", "report")
        kept = sealed.read_bytes()

        # Another branch was merged meanwhile.
        settings.write_text(reviewed.replace("max_workers = 20", "max_workers = 30"))
        assert "something has changed since the review" in applying.run("ci/apply.sh", code=5)
        assert not sealed.exists()
        settings.write_text(reviewed)

        sealed.write_bytes(kept)
        lock.unlink()
        assert "etl: deployed" in applying.run("ci/apply.sh")
        assert lock.exists()
        assert not (github.folder / "plan").exists()

        planning.run("ci/plan.sh")
        github.run("python3", "ci/github.py", "comment", "report")
        (comment,) = [comment["body"] for comment in host.comments if comment["user"] == BOT]
        assert "no changes" in comment
        assert [method for method, _, _ in host.posted] == ["POST", "PATCH"]
        assert "nothing to do" in applying.run("ci/apply.sh")

        with contextlib.closing(sim.client("autoscaling")) as groups:
            groups.update_auto_scaling_group(
                AutoScalingGroupName="terradask-default-etl-workers", MaxSize=99
            )
        planning.run("ci/drift.sh", "etl", code=2)
        assert "99" in summary.read_text()
    finally:
        applying.run("terradask", "destroy", "etl", "--yes")


def test_a_sealed_plan_opens_with_its_key_alone(github: Pipeline) -> None:
    (github.folder / "plan.sealed").write_bytes(bytes(64))
    github.environ["PLAN_KEY"] = base64.b64encode(bytes(32)).decode()
    assert "another key" in github.run("ci/apply.sh", code=2)
    assert not (github.folder / "plan").exists()


def test_atlantis_shows_why_nothing_could_be_planned(tmp_path: Path) -> None:
    """Without credentials, and with a terradask that only fails."""
    pipeline = _pipeline("atlantis", tmp_path / "repository", {"PLANFILE": str(tmp_path / "p")})
    programs = tmp_path / "programs"
    programs.mkdir()
    (programs / "terradask").write_text("#!/bin/sh\necho 'no credentials' >&2\nexit 3\n")
    (programs / "terradask").chmod(0o755)
    pipeline.environ["PATH"] = f"{programs}{os.pathsep}{pipeline.environ['PATH']}"
    assert "no credentials" in pipeline.run("ci/plan.sh", code=3)
    assert not (tmp_path / "p").exists()


@pytest.mark.life
def test_atlantis_plans_into_its_file_and_applies_exactly_that(
    sim: Simulator,
    quick_provider: QuickProvider,
    policies: dict[str, list[dict[str, Any]]],
    tmp_path: Path,
) -> None:
    # Where Atlantis looks for plans: beside the repository's files.
    folder = tmp_path / "repository"
    plan_file = folder / "terradask-default.tfplan"
    server = _pipeline(
        "atlantis",
        folder,
        {"PLANFILE": str(plan_file), "TERRADASK_NETWORK__ZONES": "null"},
    )
    server.environ = {**sim.environ_of("atlantis", *policies["ongoing"]), **server.environ}
    quick_provider.lock(folder)
    settings = folder / "terradask.toml"
    reviewed = settings.read_text().replace("[clusters.etl]", "[clusters.atlantis]")
    settings.write_text(reviewed)
    (folder / "terradask.lock.json").write_text("{}")
    commands = {
        stage: found["steps"][0]["run"]["command"]
        for stage, found in yaml.safe_load((folder / "repos.yaml").read_text())["workflows"][
            "terradask"
        ].items()
    }
    try:
        shown = server.run("sh", "-c", commands["plan"])
        assert shown.startswith("<!-- terradask plan default ")
        assert "4 to create" in shown
        assert plan_file.stat().st_mode & 0o077 == 0
        # Atlantis takes every such file for a plan.
        assert [path for path in folder.rglob("*.tfplan") if ".git" not in path.parts] == [
            plan_file
        ]

        settings.write_text(reviewed.replace("max_workers = 20", "max_workers = 30"))
        assert "refused: something has changed" in server.run("sh", "-c", commands["apply"], code=5)
        assert not plan_file.exists()

        settings.write_text(reviewed)
        server.run("sh", "-c", commands["plan"])
        assert "atlantis: deployed" in server.run("sh", "-c", commands["apply"])
        assert not plan_file.exists()
        assert "no changes" in server.run("sh", "-c", commands["plan"])
    finally:
        server.run("terradask", "destroy", "atlantis", "--yes")
