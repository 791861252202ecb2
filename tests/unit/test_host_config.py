"""What a host reads before it asks anybody, and the errors that explain it."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from terradask_host.config import Paths, load_config, parse_document
from terradask_host.errors import ConfigInvalid, HostError, RunMissing
from terradask_host.timing import TIMING_VARIABLE, Timing

from .host_facts import HOST_JSON, write_host_json


def test_configuration_of_an_instance(tmp_path: Path) -> None:
    config = load_config(write_host_json(tmp_path, HOST_JSON))
    assert (config.workspace, config.region, config.bucket) == ("default", "us-east-1", "b")
    assert config.metadata_endpoint == "http://169.254.169.254"
    assert config.python is None
    assert config.timing == Timing()
    assert config.cpu_count >= 1
    assert config.memory_bytes > 2**20
    assert config.paths.keys == tmp_path / "run/terradask"


def test_without_a_root_paths_are_the_machines() -> None:
    assert str(Paths(Path("/")).host_json) == "/etc/terradask/host.json"


def test_the_environment_overrides(tmp_path: Path) -> None:
    environ = write_host_json(tmp_path, HOST_JSON) | {
        "TERRADASK_HOST_PYTHON": "/venv/bin/python",
        "TERRADASK_HOST_CPU_COUNT": "64",
        "TERRADASK_HOST_MEMORY_BYTES": "1024",
        "AWS_EC2_METADATA_SERVICE_ENDPOINT": "http://127.64.0.9:1338",
        TIMING_VARIABLE: '{"retired_grace_seconds": 1}',
    }
    config = load_config(environ)
    assert (config.cpu_count, config.memory_bytes) == (64, 1024)
    assert config.python == Path("/venv/bin/python")
    assert config.metadata_endpoint == "http://127.64.0.9:1338"
    assert config.timing.retired_grace_seconds == 1


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("{", "not valid JSON"),
        ([], "not a JSON object"),
        (HOST_JSON | {"format": 2}, "format"),
        ({k: v for k, v in HOST_JSON.items() if k != "bucket"}, "bucket"),
        (HOST_JSON | {"region": 3}, "region"),
        (HOST_JSON | {"notify_topic_arn": 3}, "notify_topic_arn"),
        (HOST_JSON | {"notify_topic_arn": "dask"}, "not the ARN of a topic"),
    ],
)
def test_a_bad_host_json_is_explained(tmp_path: Path, document: object, message: str) -> None:
    with pytest.raises(ConfigInvalid, match=message):
        load_config(write_host_json(tmp_path, document))


def test_a_missing_host_json_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match=r"host\.json can't be read"):
        load_config({"TERRADASK_HOST_ROOT": str(tmp_path)})


@pytest.mark.parametrize("text", ["0", "-1", "many", "1.5"])
def test_a_bad_machine_size_is_explained(tmp_path: Path, text: str) -> None:
    environ = write_host_json(tmp_path, HOST_JSON) | {"TERRADASK_HOST_CPU_COUNT": text}
    with pytest.raises(ConfigInvalid, match="TERRADASK_HOST_CPU_COUNT"):
        load_config(environ)


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"retired": 1}', '{"dask_restarts": "x"}', '{"dask_restarts": -1}']
)
def test_bad_timing_is_explained(text: str) -> None:
    with pytest.raises(ConfigInvalid, match=TIMING_VARIABLE):
        Timing.from_environ({TIMING_VARIABLE: text})


def test_leaving_fits_into_the_units_time_to_stop() -> None:
    import terradask_modules

    unit = Path(terradask_modules.__file__).with_name("templates") / "terradask-host.service"
    stop = next(
        line for line in unit.read_text().splitlines() if line.startswith("TimeoutStopSec=")
    )
    assert Timing().leave_seconds + 15 < float(stop.partition("=")[2])


def test_a_broken_secret_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ConfigInvalid) as caught:
        parse_document('{"ca": "-----BEGIN hush', "the secret x")
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_errors_survive_pickling() -> None:
    error = RunMissing("No run.", given="x", advice="Start it.")
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is RunMissing
    assert str(again) == "No run.\n  given: x\n  to do: Start it."


def test_host_errors_are_told_whole() -> None:
    error = HostError("It broke.", given=1, allowed="2", advice="Do.")
    assert str(error) == "It broke.\n  given: 1\n  allowed: 2\n  to do: Do."
