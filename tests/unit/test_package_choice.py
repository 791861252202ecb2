"""Which packages hosts get: those that settings name, else all of this environment."""

from __future__ import annotations

from typing import Any

import pytest

from terradask._aws.endpoints import ENDPOINT_VARIABLE
from terradask._dask.arguments import ClusterArguments
from terradask._dask.request import read_request
from terradask._software.package_sync import package_sync_settings
from terradask._software.sync import PackageSync
from terradask_stacks.settings import ClusterSettings

EMBEDDED = {ENDPOINT_VARIABLE: "http://127.0.0.1:5000"}


def _settings(**given: Any) -> ClusterSettings:
    return ClusterSettings(**given)


@pytest.mark.parametrize(
    ("given", "packages"),
    [
        ({}, True),
        ({"package_sync": True}, True),
        ({"package_sync": False}, False),
        ({"package_sync": ["pandas"]}, ["pandas"]),
        ({"software": ["pandas"]}, False),
        ({"software_lock": "uv.lock"}, False),
    ],
)
def test_hosts_get_this_environment_unless_settings_say_otherwise(
    given: dict[str, Any], packages: object
) -> None:
    assert package_sync_settings(_settings(**given), {}).packages == packages


def test_hosts_of_an_embedded_aws_run_in_this_environment_already() -> None:
    assert not package_sync_settings(_settings(), EMBEDDED)
    assert package_sync_settings(_settings(package_sync=True), EMBEDDED) == PackageSync()


def test_a_cluster_of_an_older_terradask_keeps_what_it_had() -> None:
    older = _settings().model_dump(mode="json")
    del older["package_sync"]
    assert not package_sync_settings(ClusterSettings.read(older), {})


@pytest.mark.parametrize("given", [{"software": []}, {"software": ["s3fs"]}])
def test_software_in_the_call_is_all_that_hosts_get(given: dict[str, Any]) -> None:
    run = read_request(ClusterArguments("etl", **given)).given
    assert not package_sync_settings(_settings(**run), {})
