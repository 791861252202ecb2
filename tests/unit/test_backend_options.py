"""Backend options: of a call, of the workspace's file, of Dask's configuration; which goes before
which, and how the file is written.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import terradask
from terradask import set_backend_options
from terradask.errors import InvalidInput, RegionUnusable, SettingsError
from terradask_stacks.loading import load_settings

OFFICE = {"ports": [8786, 8787], "cidr": "203.0.113.0/24"}
HOME = {"ports": ["8786-8787"], "cidr": "198.51.100.7/32"}

TEXT = """\
# The team's workspace.
[workspace]
region = "us-west-1"  # near the data
name = "team"

[cluster]  # of every cluster
worker_cpu = 4

[network]
nat = "single"
# Who gets in:
[[network.ingress]]
cidr = "198.51.100.7/32"  # home

[clusters.etl]
n_workers = 2
"""


def _file(folder: Path, text: str = TEXT) -> Path:
    path = folder / "terradask.toml"
    path.write_bytes(text.encode())
    return path


# ---- which goes before which ---------------------------------------------------------------------


def _settings(folder: Path, text: str, call: dict[str, Any] | None = None, **dask: Any) -> Any:
    return load_settings(_file(folder, text), environ={}, dask_config=dask, overrides=call).settings


def test_a_call_goes_before_the_workspace_and_that_before_the_defaults_of_dasks_configuration(
    tmp_path: Path,
) -> None:
    defaults = {
        "backend-options": {"region": "us-west-1", "zone_name": "us-west-1a", "firewall": OFFICE}
    }
    alone = _settings(tmp_path, "", **defaults)
    assert (alone.workspace.region, alone.cluster.zone_name, alone.cluster.ingress[0].cidr) == (
        "us-west-1",
        "us-west-1a",
        OFFICE["cidr"],
    )
    file = '[cluster]\nzone_name = "us-west-1b"\ningress = []\n'
    under = _settings(tmp_path, file, **defaults)
    assert (under.workspace.region, under.cluster.zone_name, under.cluster.ingress) == (
        "us-west-1",
        "us-west-1b",
        [],
    )
    called = _settings(tmp_path, file, {"cluster": {"zone_name": "us-west-1c"}}, **defaults)
    assert called.cluster.zone_name == "us-west-1c"
    # Sections of Dask's configuration are no defaults: they go before the file, as they always
    # have.
    sections = _settings(
        tmp_path,
        '[workspace]\nregion = "eu-west-1"\n',
        workspace={"region": "eu-north-1"},
        **{"backend-options": {}},
    )
    assert sections.workspace.region == "eu-north-1"


def test_who_wants_the_best_zone_means_none_that_was_named_before(tmp_path: Path) -> None:
    text = '[cluster]\nzone_name = "us-east-1b"\n[clusters.etl]\nn_workers = 1\n'
    assert (
        _settings(tmp_path, text, {"cluster": {"use_best_zone": True}}).clusters["etl"].zone_name
        is None
    )
    assert (
        _settings(tmp_path, text, {"cluster": {"use_best_zone": False}}).cluster.zone_name
        == "us-east-1b"
    )


def test_defaults_that_can_not_be_used_name_their_place(tmp_path: Path) -> None:
    with pytest.raises(
        SettingsError,
        match=r"terradask.backend-options \(cluster.ingress\) in Dask's configuration, at 0.cidr",
    ):
        _settings(
            tmp_path, "", backend_options={"firewall": {"ports": [8786], "cidr": "203.0.113.7/24"}}
        )


@pytest.mark.parametrize("zone", ["us-east-1a", "eu-central-1a"])
def test_a_zone_of_another_region_is_refused_with_the_region(tmp_path: Path, zone: str) -> None:
    with pytest.raises(SettingsError, match=r"outside of workspace\.region, eu-west-1") as caught:
        _settings(tmp_path, '[workspace]\nregion = "eu-west-1"\n', {"cluster": {"zone_name": zone}})
    assert "eu-west-1a" in str(caught.value)


def test_a_zone_without_subnets_says_where_to_add_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"add it to network\.zones"):
        _settings(
            tmp_path, '[network]\nzones = ["us-east-1a"]\n[cluster]\nzone_name = "us-east-1b"\n'
        )
    given = """
    [network]
    vpc_id = "vpc-0123456789abcdef0"
    [network.subnets."us-east-1a"]
    scheduler = "subnet-0123456789abcdef0"
    worker = "subnet-0123456789abcdef0"
    """
    with pytest.raises(SettingsError, match=r'\[network.subnets."us-east-1b"\]'):
        _settings(tmp_path, given, {"cluster": {"zone_name": "us-east-1b"}})


# ---- the file ------------------------------------------------------------------------------------


def test_values_are_written_where_they_stand_and_everything_else_stays(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.chmod(0o640)
    done = set_backend_options(
        region_name="us-west-2", zone_name="us-west-2b", firewall=OFFICE, settings=tmp_path
    )
    text = path.read_text()
    assert tomllib.loads(text) == tomllib.loads(TEXT) | {
        "workspace": {"region": "us-west-2", "name": "team"},
        "cluster": {"worker_cpu": 4, "zone_name": "us-west-2b"},
        "network": {"nat": "single", "ingress": [OFFICE]},
    }
    for comment in (
        "# The team's workspace.",
        '"us-west-2"  # near the data',
        "[cluster]  # of every cluster",
        "# Who gets in:",
    ):
        assert comment in text
    assert (
        text.index("[workspace]")
        < text.index("[cluster]")
        < text.index("[[network.ingress]]")
        < text.index("[clusters.etl]")
    )
    assert path.stat().st_mode & 0o777 == 0o640
    assert [left.name for left in tmp_path.iterdir()] == ["terradask.toml"]
    assert done.changes == {
        "workspace.region": ("us-west-1", "us-west-2"),
        "cluster.zone_name": (None, "us-west-2b"),
        "network.ingress": ([{"cidr": HOME["cidr"]}], [OFFICE]),
    }
    assert done.to_do[0].startswith("terradask apply network")
    assert "resources in us-west-1 remain" in str(done)
    assert "zone_name: not set -> 'us-west-2b'" in str(done)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "# nothing yet\n",
        (
            '[network]\ningress = [{ cidr = "198.51.100.7/32" }]\nnat = '
            '"single"\n\n[cluster]\nn_workers = 1\n'
        ),
        "[network]\ningress = []\n",
        'network.nat = "none"\n',
        'network = { nat = "single" }\n',
        (
            '[[network.ingress]]\ncidr = "198.51.100.7/32"\n[[network.ingress]]\ncidr = '
            '"198.51.100.8/32"\n'
        ),
        '[clusters.etl]\nn_workers = 2\n\n[[network.ingress]]\ncidr = "198.51.100.7/32"\n',
        "[cluster]\r\nn_workers = 1\r\n",
    ],
)
def test_however_the_file_is_written(tmp_path: Path, text: str) -> None:
    path = _file(tmp_path, text)
    done = set_backend_options(ingress=[OFFICE, HOME], settings=path)
    after = tomllib.loads(path.read_bytes().decode())
    expected = tomllib.loads(text)
    expected["network"] = {**expected.get("network", {}), "ingress": [OFFICE, HOME]}
    assert after == expected
    assert done.to_do == ("terradask apply network",)
    stamp = path.stat().st_mtime_ns
    again = set_backend_options(ingress=[OFFICE, HOME], settings=path)
    assert (again.changes, again.to_do, path.stat().st_mtime_ns) == ({}, (), stamp)
    assert "nothing to change" in str(again)


@pytest.mark.parametrize(
    ("options", "error", "says"),
    [
        ({"region_name": "us-wets-2"}, RegionUnusable, "us-west-2"),
        (
            {"region_name": "us-west-2", "zone_name": "us-west-1b"},
            SettingsError,
            "outside of workspace.region",
        ),
        ({"firewall": {"ports": [8786], "cidr": "0.0.0.0/0"}}, SettingsError, "the whole internet"),
        (
            {"firewall": {"port": [8786], "cidr": "203.0.113.0/24"}},
            SettingsError,
            "did you mean ports",
        ),
        ({"firewall": OFFICE, "ingress": [HOME]}, InvalidInput, "one of them"),
    ],
)
def test_what_can_not_be_used_leaves_the_file_alone(
    tmp_path: Path, options: dict[str, Any], error: Any, says: str
) -> None:
    path = _file(tmp_path)
    with pytest.raises(error, match=says):
        set_backend_options(**options, settings=path)
    assert path.read_text() == TEXT


def test_without_a_file_it_says_how_to_make_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # One of our own would move the workspace's state, which lies beside it.
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SettingsError, match="terradask init"):
        set_backend_options(region_name="us-west-2")
    assert list(tmp_path.iterdir()) == []
    _file(tmp_path)
    (tmp_path / "deep").mkdir()
    monkeypatch.chdir(tmp_path / "deep")
    assert (
        set_backend_options(zone_name="us-west-1c").path == (tmp_path / "terradask.toml").resolve()
    )
    assert terradask.BackendOptionsChange.__name__ in dir(terradask)
