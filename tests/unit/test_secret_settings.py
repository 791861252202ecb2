"""``secrets``, which names variables and where hosts read their values."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from terradask_host.documents import Run
from terradask_stacks.checks import check_secrets_reachable
from terradask_stacks.errors import SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import ClusterSettings, NetworkSettings

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
        (PLAIN, "secrets must be a table"),
        ([PLAIN], "secrets must be a table"),
    ],
)
def test_what_is_no_reference_may_be_the_secret_and_is_not_shown(given: Any, told: str) -> None:
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


@pytest.mark.parametrize(("region", "partition"), [("cn-north-1", "aws-cn"), ("us-east-1", "aws")])
def test_a_secret_is_in_the_workspaces_partition(region: str, partition: str) -> None:
    overrides = {"workspace": {"region": region}, "clusters": {"etl": {}}}
    for section in ("cluster", "clusters.etl"):
        for other in ("aws", "aws-cn"):
            secrets = {"A": SECRET.replace("arn:aws:", f"arn:{other}:")}
            given: dict[str, Any] = {**overrides}
            if section == "cluster":
                given["cluster"] = {"secrets": secrets}
            else:
                given["clusters"] = {"etl": {"secrets": secrets}}
            if other == partition:
                load_settings(environ={}, overrides=given)
                continue
            with pytest.raises(SettingsError) as caught:
                load_settings(environ={}, overrides=given)
            told = f"secrets.A is in the partition {other}, and workspace.region is {region}"
            assert told in str(caught.value)


@pytest.mark.parametrize(
    ("arn", "endpoints", "told"),
    [
        (SECRET, ["secretsmanager"], None),
        (PARAMETER, ["secretsmanager"], 'add "ssm" to network.interface_endpoints'),
        (PARAMETER, ["secretsmanager", "ssm"], None),
        (
            SECRET.replace("us-east-1", "eu-west-1"),
            ["secretsmanager"],
            "copy the secret to us-east-1",
        ),
    ],
)
def test_hosts_without_internet_access_reach_the_endpoints_of_their_region(
    arn: str, endpoints: list[Any], told: str | None
) -> None:
    cluster = ClusterSettings(secrets={"A": arn})
    walled = NetworkSettings(nat="none", interface_endpoints=endpoints)
    for network in (
        NetworkSettings(),
        walled.model_copy(update={"public_workers": True, "public_schedulers": True}),
        walled.model_copy(update={"vpc_id": "vpc-12345678"}),
        *([walled] if told is None else []),
    ):
        check_secrets_reachable(network, cluster, "us-east-1")
    if told is not None:
        with pytest.raises(SettingsError, match=re.escape(told)) as caught:
            check_secrets_reachable(walled, cluster, "us-east-1")
        (finding,) = caught.value.findings
        assert (finding.where, finding.given) == ("cluster.secrets.A", arn)


def test_a_registrys_login_is_a_whole_secret() -> None:
    def given(login: Any) -> dict[str, Any]:
        return {"cluster": {"container": "ghcr.io/a/b:1", "container_credentials": login}}

    cluster = load_settings(environ={}, overrides=given(SECRET)).settings.cluster
    assert cluster.references == {"container_credentials": SECRET}
    for login in (PLAIN, f"{SECRET}:{PLAIN}", PARAMETER, {"username": "a", "password": PLAIN}):
        with pytest.raises(SettingsError, match="container_credentials") as caught:
            load_settings(environ={}, overrides=given(login))
        assert PLAIN not in str(caught.value)
    with pytest.raises(SettingsError, match=r"cluster\.container_credentials is in the partition"):
        load_settings(environ={}, overrides=given(SECRET.replace("arn:aws:", "arn:aws-cn:")))
