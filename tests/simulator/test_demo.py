"""`terradask demo`, as a person runs it; and that it fails when something isn't as promised."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from terradask._doctor.account_check.steps import Step, StepResult
from terradask.cli import run
from terradask_modules.errors import TerradaskError
from terradask_simulator.demo import data, main_job
from terradask_simulator.demo.main_job import DemoFailed, DemoPrinter, MainJob

from ..forking import ForkServer
from ..quick_provider import QuickProvider
from ..waiting import PROCESS_SECONDS

pytestmark = [pytest.mark.simulator]

ROOT = Path(__file__).parents[2]
COUNT = Step("count", "Count", lambda _: None)

#: The demo, with another lock file for its folders, and its daemon and hosts forked.
QUICK = """
import sys
from pathlib import Path
from types import SimpleNamespace
root, lock_file, *addresses = sys.argv[1:]
sys.path.insert(0, root)
from terradask._doctor.account_check.steps import Step, StepResult
from terradask.cli import run
from terradask_simulator import process
from terradask_stacks import synthesis
from tests.forked_daemons import spawner
process.spawn = spawner(*(SimpleNamespace(address=address) for address in addresses))
synthesis.LOCK_HCL = Path(lock_file)
sys.exit(run(["demo"]))
"""


@pytest.mark.life
@pytest.mark.parametrize("package", ["quick", pytest.param("real", marks=pytest.mark.soak)])
def test_the_demo_keeps_its_promises(
    quick_provider: QuickProvider,
    fork_servers: tuple[ForkServer, ForkServer],
    tmp_path: Path,
    package: str,
) -> None:
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("AWS_", "TERRADASK_"))
    }
    command = ["-m", "terradask", "demo"]
    if package == "quick":
        environ |= quick_provider.environ
        addresses = [server.address for server in fork_servers]
        command = ["-c", QUICK, str(ROOT), str(quick_provider.lock_file), *addresses]
    done = subprocess.run(
        [sys.executable, *command],
        cwd=tmp_path,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * PROCESS_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    titles = re.findall(r"^\d+\. (.*)$", done.stdout, flags=re.MULTILINE)
    assert len(titles) == 9
    for promise in (
        "nothing is there before it is applied",
        "deployed means stopped: no host runs yet",
        "pandas finds the same for all 40 stations",
        "the workers read the data as their hosts' role",
        "none was computed again",
        "the cluster runs on after it left",
        "nothing carries the tag terradask:workspace=default",
    ):
        assert re.search(f"ok .*{re.escape(promise)}", done.stdout), promise
    assert "Traceback" not in done.stderr
    # Neither in the working directory nor elsewhere in its tree.
    assert list(tmp_path.iterdir()) == []


def test_the_demo_refuses_anything_but_an_embedded_aws(tmp_path: Path) -> None:
    environ = os.environ | {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    done = subprocess.run(
        [sys.executable, "-m", "terradask", "demo"],
        cwd=tmp_path,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "AWS_ENDPOINT_URL=http://127.0.0.1:9" in done.stderr


def test_a_promise_that_is_not_kept_ends_the_demo_and_names_what_differed() -> None:
    lines: list[str] = []
    printer = DemoPrinter(lambda line: lines.append(click.unstyle(line)))
    printer.started(COUNT)
    printer.check("one and one are two", True)
    with pytest.raises(DemoFailed) as caught:
        printer.check("two and two are five", 2 + 2 == 5, 4)
    assert (caught.value.step, caught.value.promised, caught.value.found) == (
        "Count",
        "two and two are five",
        4,
    )
    assert "two and two are five" in str(caught.value)
    assert lines[2].endswith("ok one and one are two")
    assert "five" not in "".join(lines)


def test_a_wrong_answer_is_noticed() -> None:
    job = MainJob(DemoPrinter(lambda _line: None), Path(), dict)
    expected = data.station_means(data.weather(1)).sort_index()
    job._compare(expected.copy(), expected)
    wrong = expected.copy()
    wrong.iloc[3, 0] += 1e-6
    with pytest.raises(DemoFailed, match="pandas finds the same"):
        job._compare(wrong, expected)


@pytest.mark.parametrize(
    ("meanwhile", "found"),
    [
        ({"": {"b/weather/part-00.parquet": {"s3:GetObject": 9}}}, "user's credentials"),
        ({"worker": {"b/weather/part-00.parquet": {"s3:GetObject": 1}}}, "hosts' role"),
    ],
)
def test_reads_by_somebody_else_are_noticed(meanwhile: dict, found: str) -> None:
    calls = iter([{}, {}, meanwhile])
    job = MainJob(
        DemoPrinter(lambda _line: None),
        Path(),
        lambda: next(calls),
        bucket="b",
    )
    reads = [job._reads() for _ in range(3)]
    if found == "user's credentials":
        reads[2]["worker"] = 99
    with pytest.raises(DemoFailed, match=found):
        job._show_reads(*reads)


def test_a_piece_computed_again_would_differ() -> None:
    assert data.fingerprint(data.piece(1)) != data.fingerprint(data.piece(1))


def test_a_demo_that_is_not_as_promised_exits_with_an_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(printer: DemoPrinter) -> None:
        printer.started(Step("scale", "Scale", lambda _: None))
        printer.check("5 workers came", False, found=["one", "two"])

    monkeypatch.setattr(main_job, "run_demo", broken)
    assert run(["demo"]) == 1
    said = capsys.readouterr()
    assert "1. Scale" in said.out
    assert "5 workers came" in said.err
    assert "['one', 'two']" in said.err


def test_a_demo_that_fails_is_taken_back_and_trouble_with_that_does_not_hide_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lines: list[str] = []
    job = MainJob(DemoPrinter(lambda line: lines.append(click.unstyle(line))), tmp_path, dict)

    def broken(_result: object) -> None:
        job.printer.check("a network comes", False, "nothing")

    def stuck(_result: object) -> None:
        raise TerradaskError("the state is locked")

    monkeypatch.setattr(job, "_deploy_network", broken)
    monkeypatch.setattr(job, "_remove", stuck)
    monkeypatch.setattr(main_job, "listed_zones", lambda _client: ["us-east-1a"])
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with pytest.raises(DemoFailed, match="a network comes"):
        job.run()
    assert lines[-1] == "   while removing everything: the state is locked"


@pytest.mark.parametrize("fails", ["remove_cluster", "remove_network"])
def test_each_part_of_the_removal_is_tried_whatever_becomes_of_others(
    fails: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = MainJob(DemoPrinter(lambda _line: None), Path(), dict)
    tried: list[str] = []

    def part(name: str) -> None:
        tried.append(name)
        if name == fails:
            raise TerradaskError("the state is locked")

    for name in ("remove_cluster", "remove_network"):
        monkeypatch.setattr(main_job, name, lambda *_, name=name: part(name))
    monkeypatch.setattr(job, "_delete_bucket", lambda: part("bucket"))
    monkeypatch.setattr(job, "_check_nothing_left", lambda _workspace: part("look"))
    monkeypatch.setattr(job, "workspace", lambda: None)
    with pytest.raises(TerradaskError, match="locked"):
        job._remove(StepResult("removal", ""))
    assert tried == ["remove_cluster", "remove_network", "bucket", "look"]
