"""The command line as a person and a script meet it, as far as that needs no AWS."""

from __future__ import annotations

import datetime
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

import click
import pytest

from terradask import Cluster
from terradask._common.text_table import table
from terradask.cli import _scaling, command, run
from terradask.cli._output import ago
from terradask_simulator import LeftRunning
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import Settings

from ..command import in_this_process
from ..waiting import PROCESS_SECONDS
from .public_surface import docs_page

ROOT = Path(__file__).parents[2]
REFERENCE = docs_page("cli_reference")
COMMANDS = list(REFERENCE.commands())
NAMES = [ctx.command_path for ctx, _ in COMMANDS]


@pytest.fixture(autouse=True)
def nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, with no settings of this machine."""
    for name in [name for name in os.environ if name.startswith(("TERRADASK_", "AWS_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


# ---- help and reference --------------------------------------------------------------------------


def test_help_lists_every_command_once_below_headings() -> None:
    done = in_this_process("--help")
    assert done.returncode == 0
    sections = re.split(r"^(\w[\w ]+):$", done.stdout, flags=re.MULTILINE)[1:]
    found = {
        heading: re.findall(r"^  ([a-z-]+)  +\S", text, flags=re.MULTILINE)
        for heading, text in zip(sections[::2], sections[1::2], strict=True)
    }
    assert found.pop("Options", None) is not None
    listed = [name for names in found.values() for name in names]
    assert listed == command.list_commands(click.Context(command))
    assert len(set(listed)) == len(listed)
    assert found["Begin"][:2] == ["init", "doctor"]
    # A glance takes a section in.
    assert max(map(len, found.values())) <= 9
    # Groups of commands without headings have a list as before.
    assert "Commands:" in in_this_process("job", "--help").stdout


@pytest.mark.parametrize(("ctx", "each"), COMMANDS, ids=NAMES)
def test_every_command_and_option_explains_itself(ctx: click.Context, each: click.Command) -> None:
    assert each.help
    assert each.short_help
    assert len(each.short_help) < 60
    for parameter in each.params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert parameter.help.endswith("."), parameter.name


@pytest.mark.parametrize(("ctx", "each"), COMMANDS, ids=NAMES)
def test_every_command_and_option_is_in_the_documentation(
    ctx: click.Context, each: click.Command
) -> None:
    section = _section(ctx.command_path)
    assert section
    if shared := re.search(r"^The options of `([^`]+)`", section, flags=re.MULTILINE):
        section += _section(shared[1])
    for parameter in each.params:
        if isinstance(parameter, click.Option):
            for name in parameter.opts:
                assert name in section


def _section(path: str) -> str:
    page = (ROOT / "docs/cli.md").read_text()
    return page.partition(f"### `{path}`\n")[2].partition("\n### ")[0]


def test_the_promised_commands_exist() -> None:
    promised = ["init", "synth", "plan", "apply", "destroy", "list", "status"]
    promised += ["start", "stop", "scale", "adapt", "demo", "doctor", "completion"]
    promised += ["repair-state", "unlock", "drift", "sweep", "dashboard", "jupyter", "logs"]
    promised += ["cost", "debug", "history", "report", "metrics", "reach", "run", "batch"]
    promised += [f"job {verb}" for verb in ("list", "status", "logs", "wait", "cancel")]
    promised += [
        "quotas",
        "types",
        "explain",
        "env create",
        "env build",
        *(f"image {verb}" for verb in ("build", "list", "delete")),
        "limits",
        "offers",
        "env list",
        "env inspect",
        "env delete",
        "software lock",
        "software indexes",
        "software scan",
        *(f"iam {caller}" for caller in ("setup", "ongoing", "ci", "user")),
    ]
    promised += [f"sim {verb}" for verb in ("start", "stop", "status", "run", "switch")]
    assert set(NAMES) == {f"terradask {name}" for name in promised}


@pytest.mark.parametrize(
    "name",
    [
        "list",
        "status",
        "plan",
        "apply",
        "destroy",
        "start",
        "stop",
        "sweep",
        "doctor",
        "types",
        "sim status",
    ],
)
def test_what_a_script_would_call_speaks_json(name: str) -> None:
    each = dict(zip(NAMES, (c for _, c in COMMANDS), strict=True))[f"terradask {name}"]
    assert "--json" in {opt for parameter in each.params for opt in parameter.opts}


def test_exit_codes_are_documented_for_every_error() -> None:
    codes = REFERENCE.exit_codes()
    assert {0, 1, 2, 130} <= set(codes)
    page = (ROOT / "docs/cli.md").read_text()
    for code, names in codes.items():
        assert f"| {code} | " in page
        for name in names:
            assert f"`{name}`" in page


def test_version() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "terradask", "--version"],
        capture_output=True,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("terradask 0.")


# ---- wrong usage and errors ----------------------------------------------------------------------


def test_an_unknown_command_names_the_nearest_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plna"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "No such command 'plna'. Did you mean 'plan'?" in said.err


def test_a_command_that_is_near_to_none_lists_all(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["xyzzy"]) == 2
    assert "The commands are init, doctor," in capsys.readouterr().err


def test_wrong_usage_is_json_for_a_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["list", "--json", "--sorted"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert json.loads(said.err)["error"] == "Usage"
    assert "--sorted" in json.loads(said.err)["problem"]


def test_json_behind_two_dashes_belongs_to_the_other_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sim", "run", "--bear", "--", "thing", "--json"]) == 2
    assert capsys.readouterr().err.startswith("Usage:")


def test_errors_of_the_simulator_are_shown_as_terradasks_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["sim", "status"]) == 1
    assert capsys.readouterr().err == (
        "error: no embedded AWS is running\n  to do: start one: terradask sim start\n"
    )
    assert run(["sim", "status", "--json"]) == 1
    shown = json.loads(capsys.readouterr().err)
    assert (shown["error"], shown["problem"]) == ("NotStarted", "no embedded AWS is running")


def test_a_switch_shows_what_it_changes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    states: dict[str, object] = {"no_capacity": [], "throttle": 0.0}

    class Planted:
        def __init__(self, _info: object) -> None: ...

        def turn(self, name: str, **settings: object) -> None:
            if name in states:
                states[name] = [settings]

        def switches(self) -> dict[str, object]:
            return dict(states)

    monkeypatch.setattr("terradask_simulator.Switches", Planted)
    monkeypatch.setattr("terradask_simulator.lifecycle.of_this_environment", object)
    shown = []
    for words in (["no_capacity", "market=spot"], ["interrupt_spot"], [], ["throttle", "--json"]):
        assert run(["sim", "switch", *words]) == 0
        shown.append("".join(capsys.readouterr()))
    assert shown[0] == 'no_capacity: [{"market": "spot"}]\n'
    assert shown[1] == "interrupt_spot: done\n"
    assert shown[2].count("\n") == 2
    assert json.loads(shown[3]).keys() == states.keys()


def test_a_simulator_that_left_groups_gives_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def left(*_: object, **__: object) -> int:
        raise LeftRunning(["group a"], returncode=7)

    monkeypatch.setattr("terradask_simulator.lifecycle.run", left)
    assert run(["sim", "run", "--", "thing"]) == 3
    shown = capsys.readouterr().err
    assert shown.startswith("error: The command ended with code 7 and left 1 group or instance:\n")
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", [["sim", "status"], ["demo"]])
def test_a_missing_simulator_is_named_with_its_installation(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("terradask.cli._sim.find_spec", lambda _: None)
    assert run(command) != 0
    assert "pip install 'terradask[demo]'" in capsys.readouterr().err


def test_a_setting_that_does_not_exist_is_one_clear_error(nowhere: Path) -> None:
    (nowhere / "terradask.toml").write_text("[cluster]\nmax_wrokers = 3\n")
    done = in_this_process("plan", "etl")
    assert done.returncode == 2
    assert done.stdout == ""
    assert "max_wrokers" in done.stderr
    assert "did you mean max_workers?" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_same_error_as_json(nowhere: Path) -> None:
    (nowhere / "terradask.toml").write_text("[network]\ncidr = '10.0.0.0/33'\n")
    done = in_this_process("plan", "--json")
    assert done.returncode == 2
    assert done.stdout == ""
    error = json.loads(done.stderr.splitlines()[-1])
    assert error["error"] == "SettingsError"
    assert error["findings"][0]["given"] == "10.0.0.0/33"


def test_debug_adds_the_traceback(nowhere: Path) -> None:
    (nowhere / "terradask.toml").write_text("[netwrok]\n")
    done = in_this_process("--debug", "plan")
    assert done.returncode == 2
    assert "Traceback" in done.stderr
    assert "netwrok" in done.stderr


@pytest.mark.parametrize("name", ["ETL", "a" * 33, "net_work", ""])
def test_a_name_that_aws_would_refuse(name: str) -> None:
    done = in_this_process("plan", name)
    assert done.returncode == 2
    assert done.stdout == ""
    assert "to do" in done.stderr or "allowed" in done.stderr


@pytest.mark.parametrize("verb", ["apply", "destroy", "sweep"])
def test_questions_that_nobody_can_answer_are_an_error_before_anything_is_done(verb: str) -> None:
    done = in_this_process(verb, *(["network"] if verb != "sweep" else []))
    assert done.returncode == 2
    assert "--yes" in done.stderr


def test_a_stack_and_a_saved_plan_exclude_each_other(nowhere: Path) -> None:
    done = in_this_process("apply", "network", "--plan", str(nowhere))
    assert done.returncode == 2
    assert "exclude each other" in done.stderr


def test_nobody_deploys_a_name_that_nobody_has_heard_of_without_being_asked() -> None:
    from terradask.cli._apply import _refuse_unknown
    from terradask.errors import ClusterNotFound

    deployed = {"by-hand"}
    workspace: Any = SimpleNamespace(
        settings=SimpleNamespace(clusters={"etl": None}),
        deployment=lambda name: SimpleNamespace(exists=name in deployed),
        unfinished=lambda: ["half-made"],
    )
    _refuse_unknown(workspace, ("network", "etl", "by-hand", "half-made"))
    with pytest.raises(ClusterNotFound, match="plan") as refused:
        _refuse_unknown(workspace, ("plan",))
    assert "etl" in str(refused.value.allowed)
    assert "--plan" in str(refused.value.advice)
    workspace.settings.clusters = {}
    _refuse_unknown(workspace, ("plan",))


def test_no_credentials(nowhere: Path) -> None:
    done = in_this_process("list")
    assert done.returncode == 3
    assert "credentials" in done.stderr
    assert "AWS_PROFILE" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_defect_is_called_a_defect(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(
        command.get_command(click.Context(command), "completion"), "callback", lambda shell: 1 / 0
    )
    assert run(["completion", "bash"]) == 1
    said = capsys.readouterr().err
    assert "ZeroDivisionError: division by zero" in said
    assert "--debug" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(
    ("line", "result"),
    [
        (["scale", "etl", "2"], "etl: workers is scaled to 2 workers"),
        (["adapt", "etl", "--off"], "etl: workers doesn't adapt"),
        (["reach", "etl", "db:5432"], "the findings"),
    ],
)
def test_the_result_comes_before_the_line_with_which_a_cluster_is_left(
    line: list[str],
    result: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    cluster = mock.MagicMock(
        adapting={}, worker_groups={"workers": SimpleNamespace(plan=["i-0a", "i-0b"])}
    )
    cluster.__enter__.return_value = cluster
    cluster.__exit__.side_effect = lambda *_: print("etl keeps running")
    cluster.reach.return_value.__str__.return_value = "the findings"
    monkeypatch.setattr(Cluster, "from_name", lambda *_, **__: cluster)
    monkeypatch.setattr(_scaling, "load_workspace", mock.MagicMock())
    assert run(line) == 0
    assert capsys.readouterr().out.splitlines() == [result, "etl keeps running"]


def test_whoever_reads_may_stop_reading() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "terradask", "completion", "bash"],
        stdout=writer,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=PROCESS_SECONDS,
    )
    os.close(writer)
    assert done.stderr == ""
    assert done.returncode == 1


# ---- init ----------------------------------------------------------------------------------------


def test_init_writes_settings_that_load(nowhere: Path) -> None:
    done = in_this_process("init", "--all")
    assert (done.returncode, done.stdout) == (0, "terradask.toml\n")
    text = (nowhere / "terradask.toml").read_text()
    assert set(tomllib.loads(text)) == (
        set(Settings.model_fields) - {"clusters", "environments", "offers"}
    )
    loaded = load_settings(nowhere, environ={})
    assert loaded.path == nowhere / "terradask.toml"
    # Where AWS's own tools have no region, it is the default.
    assert loaded.origins.keys() <= {"workspace.region"}
    assert loaded.settings == Settings()


def test_init_overwrites_nothing_unasked(nowhere: Path) -> None:
    path = nowhere / "terradask.toml"
    path.write_text("# mine\n")
    done = in_this_process("init")
    assert done.returncode == 2
    assert "--force" in done.stderr
    assert path.read_text() == "# mine\n"
    assert in_this_process("init", "--force").returncode == 0
    assert path.read_text() != "# mine\n"


def test_init_into_another_folder_speaks_json(nowhere: Path) -> None:
    done = in_this_process("init", "--out", "team/a", "--json")
    assert done.returncode == 0
    assert json.loads(done.stdout)["path"] == str(nowhere / "team/a/terradask.toml")


# ---- completion ----------------------------------------------------------------------------------


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(shell: str) -> None:
    done = in_this_process("completion", shell)
    assert done.returncode == 0
    assert "_TERRADASK_COMPLETE" in done.stdout


def _completed(words: str) -> set[str]:
    environ = {
        "_TERRADASK_COMPLETE": "bash_complete",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    program = "import sys; sys.argv = ['terradask']; from terradask.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return {line.partition(",")[2] for line in done.stdout.splitlines()}


def test_the_shell_completes_commands_options_and_stacks(nowhere: Path) -> None:
    for name in ("network", "etl", "nightly"):
        (nowhere / "cdktf.out/stacks" / name).mkdir(parents=True)
    assert _completed("terradask st") == {"status", "start", "stop"}
    assert "--format" in _completed("terradask plan --")
    assert _completed("terradask plan n") == {"network", "nightly"}
    assert _completed("terradask stop ") == {"etl", "nightly"}
    (nowhere / "prod").mkdir()
    (nowhere / "prod/terradask.toml").write_text("[clusters.reports]\n")
    assert _completed("terradask -C prod stop ") == {"reports"}
    (nowhere / "terradask.toml").write_text("[environments.team]\n")
    assert _completed("terradask env build ") == {"default", "team"}
    (nowhere / "terradask.toml").write_text("[offers.small]\n[offers.gpu]\n")
    (nowhere / "cdktf.out/stacks/offer-small").mkdir()
    for asked in ("plan --offer ", "apply --offer ", "run --offer ", "offers "):
        assert _completed(f"terradask {asked}") == {"small", "gpu"}
    assert _completed("terradask plan ") == {"network", "etl", "nightly"}
    (nowhere / "terradask.toml").write_text("environments = 3\n")
    assert _completed("terradask env build ") == {"default"}


# ---- small parts ---------------------------------------------------------------------------------


def test_tables_are_plain_columns() -> None:
    assert table(["name", "n"], [["etl", 3], ["x", None]]) == "NAME  N\netl   3\nx     -"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (119, "119 s"), (120, "2 min"), (7300, "2 h"), (200_000, "2 d")],
)
def test_ago(seconds: int, text: str) -> None:
    moment = datetime.datetime.now(datetime.UTC) - datetime.timedelta(seconds=seconds)
    assert ago(moment) == ago(moment.isoformat()) == text
    assert ago(None) is None
