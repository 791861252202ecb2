"""``secrets``, which names variables and where hosts read their values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from terradask_host.documents import Run
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import ClusterSettings

HERE = "us-east-1:123456789012"
SECRET = f"arn:aws:secretsmanager:{HERE}:secret:db/orders-AbCdEf"
PARAMETER = f"arn:aws:ssm:{HERE}:parameter/team/token"
PLAIN = "hunter2-in-plain-text"


def refusal(given: Any, **more: Any) -> str:
    """Return how a table of secrets is refused."""
    with pytest.raises(SettingsError) as caught:
        load_settings(environ={}, overrides={"cluster": {"secrets": given, **more}})
    return str(caught.value)


def test_references_to_both_stores_are_settings_of_a_run() -> None:
    secrets = {"A": SECRET, "B": f"{SECRET}:password", "_C": PARAMETER}
    loaded = load_settings(environ={}, overrides={"cluster": {"secrets": secrets}})
    assert loaded.settings.cluster.secrets == secrets
    # An older terradask's document has none.
    assert ClusterSettings.read({}).secrets == {}


def test_a_cluster_may_have_more_than_all(tmp_path: Path) -> None:
    tables = {"cluster": {"A": SECRET}, "clusters.etl": {"B": PARAMETER}}
    lines = [
        f'[{table}.secrets]\n{name} = "{arn}"'
        for table, secrets in tables.items()
        for name, arn in secrets.items()
    ]
    (tmp_path / "terradask.toml").write_text("\n".join(lines))
    settings = load_settings(tmp_path, environ={}).settings
    assert settings.cluster_named("other").secrets == {"A": SECRET}
    assert settings.cluster_named("etl").secrets == {"A": SECRET, "B": PARAMETER}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"A": PLAIN}, "A is not the ARN of a secret"),
        ({"A": 12345678901}, "A is not the ARN of a secret"),
        ({PLAIN: SECRET}, "the name of secret 1 is not that of an environment variable"),
        ({"A": f"{SECRET}:{PLAIN}:"}, "A is not the ARN of a secret"),
        ({"A": f"arn:aws:s3:::{PLAIN}"}, "A is not the ARN of a secret"),
        ({"A": f"{PARAMETER}:{PLAIN}"}, "A is not the ARN of a secret"),
        ({"A": SECRET + "\n"}, "A is not the ARN of a secret"),
    ],
)
def test_what_is_no_reference_may_be_the_secret_and_is_not_shown(
    given: dict[str, Any], told: str
) -> None:
    text = refusal(given)
    assert told in text
    assert PLAIN not in text
    assert "12345678901\n" not in text
    assert "allowed: " in text


def test_a_clusters_own_secret_with_its_keys_is_none() -> None:
    keys = f"arn:aws:secretsmanager:{HERE}:secret:terradask/default/etl-AbCdEf:client"
    assert "A is a cluster's own secret, which holds its keys" in refusal({"A": keys})


@pytest.mark.parametrize(
    "name", ["DASK_CONFIG", "terradask_x", "AWS_CONTAINER_CREDENTIALS_FULL_URI"]
)
def test_names_that_processes_read_at_their_start_are_refused(name: str) -> None:
    assert f"{name} can't be a secret" in refusal({name: SECRET})


def test_a_name_is_plain_or_a_secret() -> None:
    told = refusal({"A": SECRET, "B": SECRET}, environ={"B": "1"})
    assert "cluster.environ and cluster.secrets both have B" in told


def test_the_runs_document_has_references_and_an_older_one_has_none() -> None:
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2, secrets={"A": SECRET})
    document = run.to_document()
    assert document["secrets"] == {"A": SECRET}
    assert Run.read(document) == run
    del document["secrets"]
    assert Run.read(document).secrets == {}
