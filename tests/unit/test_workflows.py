"""The example pipelines: valid, with no more rights than they use, and with no way for a stranger's
text into a shell.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

EXAMPLES = Path(__file__).parents[2] / "examples"
GITHUB = EXAMPLES / "github-actions"
GITLAB = EXAMPLES / "gitlab"
OWN = sorted((EXAMPLES.parent / ".github/workflows").glob("*.yml"))
WORKFLOWS = sorted((GITHUB / ".github/workflows").glob("*.yml"))

#: Workflow -> job -> the rights of its token.
PERMISSIONS = {
    "plan": {
        "plan": {"contents": "read", "id-token": "write"},
        "comment": {"contents": "read", "pull-requests": "write", "security-events": "write"},
    },
    "apply": {
        "apply": {
            "actions": "read",
            "contents": "read",
            "id-token": "write",
            "pull-requests": "read",
        }
    },
    "drift": {"drift": {"contents": "read", "id-token": "write"}},
}

WORKFLOW_KEYS = {"name", "on", "permissions", "concurrency", "jobs"}
JOB_KEYS = {"needs", "if", "runs-on", "timeout-minutes", "environment", "permissions", "steps"}
STEP_KEYS = {"id", "if", "uses", "with", "run", "env"}

SHA = re.compile(r"^((?:actions|aws-actions)/[a-z-]+)@([0-9a-f]{40})$")
#: Expressions that hold nothing a contributor chose.
EXPRESSIONS = re.compile(
    r"\$\{\{ "
    r"(?:(?:vars|secrets)\.\w+|github\.(?:token|ref|event\.pull_request\.number)"
    r"|steps\.reviewed\.outputs\.run-id) "
    r"\}\}"
)


def _load(path: Path) -> dict[str, Any]:
    # YAML 1.1 reads the key `on` as true.
    return {
        ("on" if key is True else key): value
        for key, value in yaml.safe_load(path.read_text()).items()
    }


def _steps(workflow: dict[str, Any]) -> list[dict[str, Any]]:
    return [step for job in workflow["jobs"].values() for step in job["steps"]]


def test_the_workflows_are_those_that_are_described() -> None:
    assert {path.stem for path in WORKFLOWS} == set(PERMISSIONS)
    readme = (GITHUB / "README.md").read_text()
    for path in WORKFLOWS:
        assert path.name in readme


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_workflow_has_known_keys_alone(path: Path) -> None:
    workflow = _load(path)
    assert set(workflow) <= WORKFLOW_KEYS
    assert workflow["name"] == path.stem
    assert set(workflow["on"]) <= {"pull_request", "push", "schedule", "workflow_dispatch"}
    for job in workflow["jobs"].values():
        assert set(job) <= JOB_KEYS
        assert job["runs-on"] == "ubuntu-24.04"
        assert job["timeout-minutes"] <= 60
    for step in _steps(workflow):
        assert set(step) <= STEP_KEYS
        assert len({"uses", "run"} & set(step)) == 1
    needed = {name for job in workflow["jobs"].values() for name in [job.get("needs")] if name}
    assert needed <= set(workflow["jobs"])


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_a_token_may_do_what_its_job_does(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {}
    assert {name: job["permissions"] for name, job in workflow["jobs"].items()} == PERMISSIONS[
        path.stem
    ]
    for job in workflow["jobs"].values():
        # Whoever takes a role does so in an environment, which the role's trust names; and writes
        # nothing to the code host.
        assert ("id-token" in job["permissions"]) == ("environment" in job)
        assert not (
            "id-token" in job["permissions"]
            and {"pull-requests", "security-events"} & _written(job)
        )
    for step in _steps(workflow):
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] is False


def _written(job: dict[str, Any]) -> set[str]:
    return {name for name, right in job["permissions"].items() if right == "write"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_commit_with_their_version(path: Path) -> None:
    text = path.read_text()
    used = re.findall(r"uses: (\S+)(.*)$", text, flags=re.MULTILINE)
    assert used
    for action, comment in used:
        assert SHA.match(action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    versions = {
        action: comment
        for each in WORKFLOWS
        for action, comment in re.findall(r"uses: (\S+)(.*)$", each.read_text(), re.MULTILINE)
    }
    assert len({action.partition("@")[0] for action in versions}) == len(versions)


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_our_own_workflow_is_pinned_and_keeps_no_token(path: Path) -> None:
    workflow = _load(path)
    assert workflow["permissions"] == {"contents": "read"}
    assert {
        name: job["permissions"] for name, job in workflow["jobs"].items() if "permissions" in job
    } == ({"publish": {"id-token": "write"}} if path.stem == "release" else {})
    used = re.findall(r"uses: (\S+)(.*)$", path.read_text(), flags=re.MULTILINE)
    assert len(used) >= 2
    for action, comment in used:
        assert re.fullmatch(r"(actions|hashicorp|pypa)/[a-z-]+@[0-9a-f]{40}", action), action
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), action
    for job in workflow["jobs"].values():
        checkouts = [step for step in job["steps"] if "checkout@" in step.get("uses", "")]
        # What may publish runs nothing of the repository.
        assert len(checkouts) == (0 if "id-token" in job.get("permissions", ()) else 1)
        assert all(step["with"] == {"persist-credentials": False} for step in checkouts)
        assert checkouts or not [step for step in job["steps"] if "run" in step]
    assert "${{" not in "\n".join(step.get("run", "") for step in _steps(workflow))


def test_our_own_workflows_have_one_version_of_each_action() -> None:
    used = {line for path in OWN for line in re.findall(r"uses: (\S+)", path.read_text())}
    assert len({action.partition("@")[0] for action in used}) == len(used)


def test_a_release_builds_without_rights_and_publishes_what_was_built() -> None:
    workflow = _load(next(path for path in OWN if path.stem == "release"))
    assert workflow["on"] == {"push": {"tags": ["v*"]}}
    assert workflow["concurrency"]["cancel-in-progress"] is False
    build, publish = workflow["jobs"]["build"], workflow["jobs"]["publish"]
    assert 'make dist TAG="$GITHUB_REF_NAME"' in [step.get("run") for step in build["steps"]]
    assert (publish["needs"], publish["environment"]) == ("build", "pypi")
    (uploaded,), (downloaded,) = (
        [step["with"] for step in job["steps"] if "-artifact@" in step.get("uses", "")]
        for job in (build, publish)
    )
    assert {uploaded["name"], downloaded["name"]} == {"dist"}
    assert {uploaded["path"], downloaded["path"]} == {"dist/"}
    last = publish["steps"][-1]
    assert last["uses"].startswith("pypa/gh-action-pypi-publish@")
    # Trusted publishing: no password or token.
    assert last["with"] == {"attestations": True}


def test_packages_are_installed_by_hash_alone() -> None:
    pipeline = _load(GITLAB / ".gitlab-ci.yml")
    commands = [
        *(step["run"] for path in WORKFLOWS for step in _steps(_load(path)) if "run" in step),
        *pipeline[".aws"]["before_script"],
        *(line for job in pipeline.values() if "script" in job for line in job["script"]),
    ]
    installs = [command for command in commands if "pip" in command]
    assert len(installs) == 4
    assert {*installs} == {
        "pip install --require-hashes --only-binary :all: --requirement requirements.txt"
    }
    for scripts in (GITHUB / "ci", GITLAB / "ci"):
        assert not [path for path in scripts.iterdir() if "pip install" in path.read_text()]


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_nothing_that_a_stranger_wrote_reaches_a_shell(path: Path) -> None:
    workflow = _load(path)
    assert "pull_request_target" not in path.read_text()
    for step in _steps(workflow):
        assert "${{" not in step.get("run", "")
        for value in [*step.get("env", {}).values(), *map(str, step.get("with", {}).values())]:
            assert "${{" not in EXPRESSIONS.sub("", str(value)), value
    for program in re.findall(
        r"ci/[\w.]+", "\n".join(step.get("run", "") for step in _steps(workflow))
    ):
        assert (GITHUB / program).is_file()


def test_a_fork_gets_no_role_and_a_merge_applies_once() -> None:
    plan, apply = _load(WORKFLOWS[2]), _load(WORKFLOWS[0])
    assert (
        plan["jobs"]["plan"]["if"]
        == "github.event.pull_request.head.repo.full_name == github.repository"
    )
    assert apply["on"] == {"push": {"branches": ["main"]}}
    assert apply["concurrency"] == {"group": "apply", "cancel-in-progress": False}


def test_plans_are_kept_encrypted_and_not_for_long() -> None:
    uploads = [
        step["with"]
        for step in _steps(_load(WORKFLOWS[2]))
        if step.get("uses", "").startswith("actions/upload-artifact@")
    ]
    assert {upload["path"]: upload["retention-days"] for upload in uploads} == {
        "report/": 7,
        "plan.sealed": 1,
    }
    artifacts = _load(GITLAB / ".gitlab-ci.yml")["plan"]["artifacts"]
    assert (artifacts["paths"], artifacts["expire_in"], artifacts["access"]) == (
        ["report/", "plan.sealed"],
        "1 day",
        "developer",
    )


def test_the_gitlab_pipeline_has_known_keys_and_each_job_its_rule() -> None:
    pipeline = _load(GITLAB / ".gitlab-ci.yml")
    jobs = {
        name: job
        for name, job in pipeline.items()
        if name not in ("stages", "default") and not name.startswith(".")
    }
    assert list(jobs) == pipeline["stages"] == ["plan", "comment", "apply", "drift"]
    allowed = {
        "extends",
        "stage",
        "timeout",
        "rules",
        "variables",
        "script",
        "artifacts",
        "needs",
        "environment",
        "resource_group",
    }
    sources = {}
    for name, job in jobs.items():
        assert set(job) <= allowed
        assert job["stage"] == name
        (rule,) = job["rules"]
        sources[name] = re.findall(r'CI_PIPELINE_SOURCE == "(\w+)"', rule["if"])
        for line in job["script"]:
            # No variable that a contributor chooses, such as a branch's name or a title.
            assert "$" not in line
            for program in re.findall(r"ci/[\w.]+", line):
                assert (GITLAB / program).is_file()
    assert sources == {
        "plan": ["merge_request_event"],
        "comment": ["merge_request_event"],
        "apply": ["push"],
        "drift": ["schedule"],
    }
    # Whoever may comment holds no role, and the other way round.
    assert [name for name, job in jobs.items() if "extends" not in job] == ["comment"]


def test_no_variable_of_the_pipelines_looks_like_a_setting() -> None:
    for path in [*GITHUB.rglob("*"), *GITLAB.rglob("*")]:
        if path.is_file() and path.suffix in (".yml", ".sh", ".py"):
            assert "TERRADASK_" not in path.read_text(), path


ATLANTIS = EXAMPLES / "atlantis"


def test_atlantis_runs_the_two_scripts_and_leaves_pull_requests_no_choice() -> None:
    server = _load(ATLANTIS / "repos.yaml")
    assert set(server) == {"repos", "workflows"}
    (repository,) = server["repos"]
    assert repository == {
        "id": "github.com/ORGANISATION/REPOSITORY",
        "workflow": "terradask",
        "allowed_overrides": [],
        "allow_custom_workflows": False,
        "apply_requirements": ["approved", "mergeable", "undiverged"],
    }
    workflow = server["workflows"]["terradask"]
    assert set(workflow) == {"plan", "apply"}
    for stage, found in workflow.items():
        (step,) = found["steps"]
        assert step == {"run": {"command": f"ci/{stage}.sh", "output": "show"}}
        assert (ATLANTIS / step["run"]["command"]).stat().st_mode & 0o111
    own = _load(ATLANTIS / "atlantis.yaml")
    assert own["version"] == 3
    (project,) = own["projects"]
    # A workflow that the repository named would be refused.
    assert set(project) == {"name", "dir", "autoplan"}
    assert "terradask.toml" in project["autoplan"]["when_modified"]


def test_atlantis_shows_the_report_as_markdown() -> None:
    template = (ATLANTIS / "templates/plan_success.tmpl").read_text()
    assert "```" not in template
    assert template.count("{{ .TerraformOutput }}") == 1
    opened = re.findall(r"\{\{-? *(define|if)\b", template)
    assert len(opened) == len(re.findall(r"\{\{-? *end\b", template))
    assert re.findall(r'define "(\w+)"', template) == ["planSuccessUnwrapped", "planSuccessWrapped"]
