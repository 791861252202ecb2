"""What of the caller's Dask configuration travels to the hosts."""

import json
import subprocess
import sys

import dask.config
import pytest

from terradask._clusters.dask_config import portable_config


def test_what_the_user_set_travels_and_defaults_stay():
    with dask.config.set({"distributed.worker.memory.target": 0.42, "array.chunk-size": "1 MiB"}):
        assert portable_config() == {
            "distributed": {"worker": {"memory": {"target": 0.42}}},
            "array": {"chunk-size": "1 MiB"},
        }


def test_nothing_set_is_nothing_sent():
    assert portable_config(dict(dask.config.merge(*dask.config.defaults))) == {}


def test_secrets_files_and_addresses_of_this_machine_stay():
    config = {
        "s3": {"secret_key": "x", "api-key": "y", "AccessKey": "z", "password": "p", "fine": 1},
        "distributed": {
            "comm": {
                "tls": {"ca-file": "ca.pem"},
                "require-encryption": True,
                "timeouts": {"connect": "99s"},
            }
        },
        "temporary-directory": "scratch",
        "temporary_directory": "scratch",
        "scheduler-address": "tcp://10.0.0.1:8786",
        "terradask": {"workspace": {"region": "eu-west-1"}},
    }
    assert portable_config(config) == {
        "s3": {"fine": 1},
        "distributed": {"comm": {"timeouts": {"connect": "99s"}}},
    }


_FILE = {"class": "logging.FileHandler", "filename": "/var/log/mine/dask.log"}
_NEW_STYLE = {
    "version": 1,
    "handlers": {"file": _FILE},
    "loggers": {
        "distributed": {"level": "INFO", "handlers": ["file"]},
        "distributed.worker": {"level": 10},
        "mine": {"handlers": ["file"]},
    },
    "root": {"level": "WARNING", "handlers": ["file"]},
}


@pytest.mark.parametrize("place", ["top", "distributed"])
@pytest.mark.parametrize(
    ("given", "levels"),
    [
        ({"logging": {"distributed": "debug", "mine": 20}}, {"distributed": "debug", "mine": 20}),
        ({"logging": {"distributed": "loud"}}, {}),
        (
            {"logging": _NEW_STYLE},
            {"distributed": "INFO", "distributed.worker": 10, "root": "WARNING"},
        ),
        ({"logging-file-config": "/etc/mine/logging.ini"}, {}),
        ({"logging": None}, {}),
    ],
)
def test_of_logging_levels_travel_and_files_stay(place, given, levels):
    config = given if place == "top" else {"distributed": given}
    assert portable_config(config) == ({"logging": levels} if levels else {})


def test_a_dask_that_gets_these_levels_starts_and_logs_to_no_file():
    """As on a host: the configuration first, then distributed's import."""
    script = (
        "import json, logging, sys, dask.config\n"
        "dask.config.update(dask.config.config, json.loads(sys.argv[1]))\n"
        "import distributed\n"
        "names = ['root', 'distributed', 'distributed.worker', 'tornado']\n"
        "print(json.dumps({name: logging.getLogger(name).level for name in names}))\n"
        "handlers = [each for name in names for each in logging.getLogger(name).handlers]\n"
        "assert handlers and not [each for each in handlers if hasattr(each, 'mode')]\n"
    )
    sent = json.dumps(portable_config({"logging": _NEW_STYLE}))
    command = [sys.executable, "-c", script, sent]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    levels = {"root": 30, "distributed": 20, "distributed.worker": 10, "tornado": 50}
    assert json.loads(done.stdout) == levels


def test_modules_files_and_addresses_of_this_machine_stay():
    config = {
        "distributed": {
            "scheduler": {
                "contact-address": "tls://10.0.0.1:8786",
                "dashboard": {
                    "tls": {"cert": "/etc/mine.pem"},
                    "status": {"task-stream-length": 5},
                },
            },
            "worker": {"local_directory": "/scratch", "preload": ["mine"]},
            "client": {"preload": ["mine"], "security-loader": "mine.load", "heartbeat": "9s"},
        }
    }
    assert portable_config(config) == {
        "distributed": {
            "scheduler": {"dashboard": {"status": {"task-stream-length": 5}}},
            "client": {"heartbeat": "9s"},
        }
    }


def test_what_is_no_json_stays():
    config = portable_config({"mine": {"function": len, "set": {1}, "number": 1}})
    assert config == {"mine": {"number": 1}}
    json.dumps(config)


def test_secrets_in_lists_stay():
    config = {
        "stores": [{"user": "u", "password": "p", "more": [{"token": "t", "fine": 1}]}],
        "sizes": [1, 2],
    }
    assert portable_config(config) == {
        "stores": [{"user": "u", "more": [{"fine": 1}]}],
        "sizes": [1, 2],
    }


def test_what_looks_like_a_secret_stays_whatever_its_key():
    address = "https://me:correct-horse@index.example.org/simple"
    config = {
        "pip": {
            "index": address,
            "mirrors": [address, "https://index.example.org/simple"],
            "timeout": 5,
        },
        "mine": {
            "note": "AKIA" + "ABCDEFGHIJKLMNOP",
            "more": [{"key": "-----BEGIN " + "PRIVATE KEY-----", "fine": 1}],
        },
    }
    assert portable_config(config) == {
        "pip": {"mirrors": ["https://index.example.org/simple"], "timeout": 5},
        "mine": {"more": [{"fine": 1}]},
    }
