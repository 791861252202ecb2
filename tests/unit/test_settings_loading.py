"""Where settings come from, which wins, and that every problem is told at once with its place."""

from __future__ import annotations

import pickle
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from terradask_stacks.errors import SettingsError
from terradask_stacks.layers import TABLES
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import OUTSIDE_OF_FILE, Settings
from terradask_stacks.starter_file import starter_toml

from .settings_files import problems, write

DOCS = Path(__file__).parents[2] / "docs/settings.md"


def test_later_sources_win_and_are_remembered(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        (
            "[cluster]\nmax_workers = 10\nn_workers = 1\nscheduler_port = "
            "8000\nworker_timeout_seconds = 5\n"
        ),
    )

    loaded = load_settings(
        path,
        environ={"TERRADASK_CLUSTER__SCHEDULER_PORT": "8002", "TERRADASK_CLUSTER__N_WORKERS": "3"},
        dask_config={"cluster": {"scheduler-port": 8001, "n_workers": 2, "max-workers": 11}},
        overrides={"cluster": {"n_workers": 4}},
    )

    cluster = loaded.settings.cluster
    assert (
        cluster.worker_timeout_seconds,
        cluster.max_workers,
        cluster.scheduler_port,
        cluster.n_workers,
    ) == (5, 11, 8002, 4)
    assert loaded.origins == {
        "cluster.worker_timeout_seconds": f"cluster.worker_timeout_seconds in {path}",
        "cluster.max_workers": "terradask.cluster.max_workers in Dask's configuration",
        "cluster.scheduler_port": "TERRADASK_CLUSTER__SCHEDULER_PORT",
        "cluster.n_workers": "argument n_workers",
    }


def test_tables_are_merged_and_lists_replaced(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[workspace]\ntags = { team = "a", stage = "dev" }\n[cluster]\nsoftware = ["s3fs"]\n',
    )

    loaded = load_settings(
        path,
        environ={"TERRADASK_WORKSPACE__TAGS": '{"stage": "prod"}'},
        overrides={"cluster": {"software": ["pandas"]}},
    )

    assert loaded.settings.workspace.tags == {"team": "a", "stage": "prod"}
    assert loaded.settings.cluster.software == ["pandas"]


def test_the_file_is_found_upwards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path, "")
    deep = tmp_path / "a/b"
    deep.mkdir(parents=True)
    monkeypatch.chdir(deep)

    loaded = load_settings(environ={})

    assert loaded.path == path
    assert loaded.root == tmp_path
    assert loaded.state_dir == tmp_path / ".terradask"
    assert loaded.out_dir == tmp_path / "cdktf.out"
    assert loaded.lock_path == tmp_path / "terradask.lock.json"


def test_a_state_folder_takes_everything_that_is_written(tmp_path: Path) -> None:
    path = write(tmp_path, "")
    state = tmp_path / "state"

    loaded = load_settings(path, environ={"TERRADASK_STATE_DIR": str(state)})

    assert (loaded.state_dir, loaded.out_dir, loaded.lock_path) == (
        state,
        state / "cdktf.out",
        state / "terradask.lock.json",
    )
    assert loaded.root == tmp_path


def test_no_file_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    loaded = load_settings(environ={})

    assert loaded.path is None
    assert loaded.settings == Settings()
    assert loaded.lock_path.parent == loaded.state_dir


@pytest.mark.parametrize(
    ("variable", "text", "setting", "value"),
    [
        ("TERRADASK_NETWORK__PUBLIC_WORKERS", "true", "public_workers", True),
        ("TERRADASK_NETWORK__ZONES", '["us-east-1a"]', "zones", ["us-east-1a"]),
        ("TERRADASK_NETWORK__ZONES", "null", "zones", None),
        ("TERRADASK_NETWORK__CIDR", "127.64.0.0/16", "cidr", "127.64.0.0/16"),
        ("TERRADASK_NETWORK__CIDR", '"127.64.0.0/16"', "cidr", "127.64.0.0/16"),
    ],
)
def test_variables_are_json_or_text(
    variable: str, text: str, setting: str, value: Any, tmp_path: Path
) -> None:
    loaded = load_settings(write(tmp_path, ""), environ={variable: text})

    assert getattr(loaded.settings.network, setting) == value


def test_text_that_looks_like_a_number_stays_text(tmp_path: Path) -> None:
    assert (
        problems(write(tmp_path, ""), environ={"TERRADASK_WORKSPACE__NAME": "7"})[
            "TERRADASK_WORKSPACE__NAME"
        ].given
        == "7"
    )


def test_other_parts_variables_are_left_alone(tmp_path: Path) -> None:
    environ = {
        "TERRADASK_HOST_ROOT": "/x",
        "TERRADASK_SIM_PORT": "1",
        "TERRADASK_STATE_DIR": str(tmp_path),
        "TERRA": "1",
    }

    assert load_settings(write(tmp_path, ""), environ=environ).settings == Settings()


def test_every_problem_is_told_at_once_with_its_place(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        '[network]\ncidr = "10.0.0.1/16"\nzone = ["us-east-1a"]\n[netwerk]\nnat = "none"\n',
    )

    found = problems(
        path,
        environ={"TERRADASK_CLUSTER__MAX_WORKER": "3", "TERRADASK_CLUSTER__SCHEDULER_PORT": "0"},
        dask_config={"cluster": {"worker-vm-types": 4}},
        overrides={
            "cluster": {"region": "eu-central-1"},
            "network": {"ingress": [{"cidr": "203.0.113.7/24", "port": 1}]},
        },
    )

    assert found[f"network.cidr in {path}"].given == "10.0.0.1/16"
    assert found[f"network.zone in {path}"].advice == "did you mean zones?"
    assert found[f"netwerk in {path}"].advice == "did you mean network?"
    assert (
        found["TERRADASK_CLUSTER__MAX_WORKER"].advice
        == "did you mean TERRADASK_CLUSTER__MAX_WORKERS?"
    )
    assert found["TERRADASK_CLUSTER__SCHEDULER_PORT"].allowed == "1 or more"
    assert found["terradask.cluster.worker_vm_types in Dask's configuration"].allowed == "a list"
    assert found["argument region"].advice == "did you mean workspace.region?"
    assert found["argument ingress, at 0.cidr"].given == "203.0.113.7/24"
    assert found["argument ingress, at 0.port"].advice == "did you mean ports?"
    assert len(found) == 9


def test_a_rule_between_settings_names_both(tmp_path: Path) -> None:
    (finding,) = problems(write(tmp_path, ""), overrides={"cluster": {"n_workers": 300}}).values()

    assert "cluster.n_workers is 300, more than cluster.max_workers, 200" in finding.problem
    assert "max_workers" in finding.advice


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[network\n", "is not TOML"),
        ("network = 3\n", "a section is a table"),
        ("\N{SNOWMAN}", "is not TOML"),
    ],
)
def test_broken_files_name_themselves(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "terradask.toml"
    path.write_text(text, encoding="utf-8")

    ((where, finding),) = problems(path).items()
    assert str(path) in where
    assert says in finding.problem


def test_bytes_that_are_no_text_are_told(tmp_path: Path) -> None:
    path = tmp_path / "terradask.toml"
    path.write_bytes(b"\xff\xfe\x00")

    assert "is not TOML" in problems(path)[str(path)].problem


def test_a_path_that_is_not_there_says_how_to_make_one(tmp_path: Path) -> None:
    ((where, finding),) = problems(tmp_path).items()

    assert where == str(tmp_path)
    assert "terradask init" in finding.advice


def test_the_error_survives_pickling_and_becomes_json(tmp_path: Path) -> None:
    with pytest.raises(SettingsError) as error:
        load_settings(write(tmp_path, "[network]\nnat = 3\n"), environ={})

    again = pickle.loads(pickle.dumps(error.value))
    assert str(again) == str(error.value)
    assert again.as_dict()["findings"][0]["given"] == 3
    assert again.exit_code == 2


def test_the_starter_file_shows_every_setting_and_is_valid(tmp_path: Path) -> None:
    text = starter_toml()
    live = "\n".join(
        line[1:] if line[:1] == "#" and line[1:2].isalpha() else line for line in text.splitlines()
    )
    shown = tomllib.loads(live)

    assert load_settings(write(tmp_path, text), environ={}).settings == Settings()
    # What excludes something else is shown too: types and sizes, ways to say who is let in.
    alone = (
        "_vm_types",
        "use_scheduler_public_ip =",
        "allow_ingress_from =",
        "allow_ssh_from =",
        "package_sync =",
        "container =",
        "local_modules =",
        "routes =",
        # There is no offer of this name.
        "offer =",
    )
    kept = [line for line in live.splitlines() if not any(word in line for word in alone)]
    load_settings(write(tmp_path, "\n".join(kept)), environ={})
    for line in (line for line in live.splitlines() if line.startswith(alone[1:3])):
        load_settings(write(tmp_path, f"[cluster]\n{line}\n"), environ={})
    for section, field in Settings.model_fields.items():
        if section in TABLES:
            continue
        every = set(field.annotation.model_fields)  # type: ignore[union-attr]
        # Some can't be in a file.
        outside = {key for where, key in OUTSIDE_OF_FILE if where == section}
        assert every - set(shown[section]) == outside


def test_each_setting_is_described_in_at_most_two_short_sentences() -> None:
    cells = re.findall(
        r"^\| `\w+` \|.* \| (.+) \|$", DOCS.read_text(encoding="utf-8"), re.MULTILINE
    )
    assert len(cells) > 100
    long = [c for c in cells if len(re.findall(r"[.!?](?= |$)", c)) > 2 or len(c.split()) > 35]
    assert long == []


_HOME = """
[workspace]
region = "us-east-1"
[network]
zones = ["us-east-1a", "us-east-1b"]
[cluster]
zone_name = "us-east-1a"
[clusters.etl]
zone_name = "us-east-1b"
"""


@pytest.mark.parametrize("above", ["argument", "variable", "configuration"])
def test_a_higher_region_takes_back_the_zones_of_lower_layers(tmp_path: Path, above: str) -> None:
    (tmp_path / "terradask.toml").write_text(_HOME)
    elsewhere = {"workspace": {"region": "eu-west-1"}}
    variables = {"TERRADASK_WORKSPACE__REGION": "eu-west-1"} if above == "variable" else {}
    loaded = load_settings(
        tmp_path,
        environ=variables,
        overrides=elsewhere if above == "argument" else None,
        dask_config=elsewhere if above == "configuration" else None,
    )
    found = loaded.settings
    assert (found.workspace.region, found.network.zones) == ("eu-west-1", None)
    assert (found.cluster.zone_name, found.clusters["etl"].zone_name) == (None, None)
    assert not {name for name in loaded.origins if "zone" in name}


def test_a_zone_of_the_same_layer_or_a_higher_one_has_to_be_in_the_region(tmp_path: Path) -> None:
    (tmp_path / "terradask.toml").write_text(_HOME)
    there = {"workspace": {"region": "eu-west-1"}, "cluster": {"zone_name": "eu-west-1b"}}
    loaded = load_settings(tmp_path, environ={}, overrides=there)
    assert loaded.settings.cluster_named("etl").zone_name == "eu-west-1b"
    wrong = {"workspace": {"region": "eu-west-1"}, "cluster": {"zone_name": "us-east-1a"}}
    with pytest.raises(SettingsError, match="name a zone of the region, or leave it out"):
        load_settings(tmp_path, environ={}, overrides=wrong)
    same = {"workspace": {"region": "us-east-1"}}
    assert load_settings(tmp_path, environ={}, overrides=same).settings.network.zones is not None
