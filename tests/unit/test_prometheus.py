"""What Prometheus is given: a scrape configuration by tags, and files that only one user reads."""

from __future__ import annotations

import stat
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from terradask._clusters.certificates import make_keys
from terradask.cli._dashboard import ScrapeTarget, save_scrape_config

KEYS = make_keys("etl", "20261120T051500Z-abc123")
TARGET = ScrapeTarget(
    workspace="default", cluster="etl", region="eu-west-1", port=8787, public=True
)


def job(path: Path) -> dict[str, Any]:
    (found,) = yaml.safe_load(path.read_text())["scrape_configs"]
    return dict(found)


def test_the_scheduler_is_found_by_tags_and_its_name_is_checked(tmp_path: Path) -> None:
    made = job(save_scrape_config(TARGET, KEYS, tmp_path))
    (source,) = made["ec2_sd_configs"]
    assert source.keys() == {"region", "refresh_interval", "filters"}
    assert {one["name"]: one["values"] for one in source["filters"]} == {
        "tag:terradask:workspace": ["default"],
        "tag:terradask:cluster": ["etl"],
        "tag:terradask:role": ["scheduler"],
        "instance-state-name": ["running"],
    }
    assert made["scheme"] == "https"
    assert made["tls_config"]["server_name"] == "scheduler.terradask"
    assert "insecure_skip_verify" not in made["tls_config"]
    given = [one["replacement"] for one in made["relabel_configs"] if "replacement" in one]
    assert given == ["$1:8787", "default", "etl"]


@pytest.mark.parametrize(
    ("public", "label"), [(True, "__meta_ec2_public_ip"), (False, "__meta_ec2_private_ip")]
)
def test_the_address_is_the_public_or_the_private_one(
    tmp_path: Path, public: bool, label: str
) -> None:
    made = job(save_scrape_config(replace(TARGET, public=public), KEYS, tmp_path))
    assert made["relabel_configs"][0]["source_labels"] == [label]


def test_an_endpoint_that_is_not_awss_is_named(tmp_path: Path) -> None:
    other = replace(TARGET, endpoint="http://127.0.0.1:5000")
    made = job(save_scrape_config(other, KEYS, tmp_path))
    assert made["ec2_sd_configs"][0]["endpoint"] == "http://127.0.0.1:5000"


def test_its_files_are_replaced_and_only_their_owner_reads_them(tmp_path: Path) -> None:
    folder = tmp_path / 'a "folder"'
    assert KEYS.metrics is not None
    save_scrape_config(TARGET, KEYS, folder)
    next_keys = make_keys("etl", "20261120T061500Z-def456")
    assert next_keys.metrics is not None
    made = job(save_scrape_config(TARGET, next_keys, folder))
    paths = {part: Path(made["tls_config"][f"{part}_file"]) for part in ("ca", "cert", "key")}
    assert paths["key"].read_text() == next_keys.metrics.key
    assert paths["cert"].read_text() == next_keys.metrics.cert
    assert paths["ca"].read_text() == next_keys.ca
    assert {path.name for path in folder.iterdir()} == {
        "etl.yml",
        *(path.name for path in paths.values()),
    }
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert next_keys.client.key not in path.read_text()
