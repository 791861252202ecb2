"""Private environment variables: which are refused, with errors that show no value; and what should
be private.
"""

import logging
import pickle

import pytest

from terradask._clusters.private_envs import (
    check_private_envs,
    secrets_in_environ,
    warn_of_secrets,
)
from terradask.errors import InvalidInput

SECRET = "hunter2-hunter2"


@pytest.mark.parametrize(
    ("env", "problem"),
    [
        ([("A", SECRET)], "map names to values"),
        ({f"A={SECRET}": ""}, "invalid name"),
        ({SECRET: "A"}, "invalid name"),
        ({"": SECRET}, "invalid name"),
        ({"1A": SECRET}, "invalid name"),
        ({"A\n": SECRET}, "invalid name"),
        ({7: SECRET}, "invalid name"),
        ({"A": SECRET.encode()}, "must be text"),
        ({"A": None}, "must be text"),
        ({"A": f"{SECRET}\0"}, "can't hold"),
        ({"A": f"{SECRET}\ud800"}, "can't hold"),
        ({"TERRADASK_HOST_ROOT": SECRET}, "can't be private"),
        ({"DASK_TEMPORARY_DIRECTORY": SECRET}, "can't be private"),
        ({"AWS_CONTAINER_CREDENTIALS_FULL_URI": SECRET}, "can't be private"),
        ({"AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": SECRET}, "can't be private"),
    ],
)
def test_what_can_not_be_set_is_refused_and_never_shown(env, problem):
    with pytest.raises(InvalidInput, match=problem) as caught:
        check_private_envs(env)
    again = pickle.loads(pickle.dumps(caught.value))
    assert SECRET not in f"{caught.value} {caught.value!r} {caught.value.as_dict()} {again}"
    assert caught.value.advice


def test_any_other_is_taken_as_it_is():
    env = {
        "DB_PASSWORD": SECRET,
        "_x9": "",
        "AWS_SECRET_ACCESS_KEY": "ä=ö",
        "DASKS": "several\nlines",
    }
    assert check_private_envs(env) == env


@pytest.mark.parametrize(
    ("environ", "names"),
    [
        ({"DB_PASSWORD": "x"}, ["DB_PASSWORD"]),
        ({"GITHUB_TOKEN": "x", "API_KEY": "y", "A": "b"}, ["API_KEY", "GITHUB_TOKEN"]),
        ({"KEY_OF": "AKIAIOSFODNN7EXAMPLE"}, ["KEY_OF"]),
        ({"DATABASE": "postgresql://ada:hunter2@db/main"}, ["DATABASE"]),
        ({"PEM": "-----BEGIN EC PRIVATE KEY-----\nabc"}, ["PEM"]),
        ({"DB_PASSWORD": ""}, []),
        ({"DB_SECRET": "arn:aws:secretsmanager:us-east-1:123456789012:secret:db"}, []),
        (
            {
                "TOKENIZERS_PARALLELISM": "false",
                "OMP_NUM_THREADS": "1",
                "DATABASE": "postgresql://db/main",
            },
            [],
        ),
    ],
)
def test_what_looks_like_a_secret_is_told_by_its_name(environ, names, caplog):
    assert secrets_in_environ(environ) == names
    with caplog.at_level(logging.WARNING, logger="terradask"):
        warn_of_secrets("etl", environ)
    assert len(caplog.records) == bool(names)
    assert all(name in caplog.text for name in names)
    assert not any(
        value and value in caplog.text for name, value in environ.items() if len(value) > 1
    )
