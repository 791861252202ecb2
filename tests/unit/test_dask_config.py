"""What of the caller's Dask configuration travels to the hosts."""

import json

import dask.config

from terradask._deployments.dask_config import portable_config


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
