"""Credentials that are lent: for how long, and what is said where AWS gives none."""

import datetime

import pytest
from botocore.stub import Stubber

from terradask import Cluster
from terradask._aws.credentials import LentCredentials, check_duration, lend
from terradask._aws.session import Aws
from terradask._dask.secrets import next_refresh
from terradask.errors import AccessDenied, InvalidInput

NOON = datetime.datetime(2026, 11, 20, 12, tzinfo=datetime.UTC)


@pytest.mark.parametrize("seconds", [None, 900, 129_600])
def test_durations_that_aws_knows(seconds):
    assert check_duration(seconds) == seconds


@pytest.mark.parametrize("seconds", [899, 129_601, 0, -1, 3600.0, "3600", True])
def test_other_durations_are_refused_before_anything_is_made(seconds):
    with pytest.raises(InvalidInput, match=r"from 900 \(15 minutes\) to 129600"):
        Cluster("etl", credentials_duration_seconds=seconds)


def test_other_credentials_are_refused_and_not_shown():
    with pytest.raises(InvalidInput, match="`credentials` is not supported") as caught:
        Cluster("etl", credentials={"secret": "hunter2"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("minutes", "after_minutes"), [(720, 360), (60, 30), (15, 7.5), (1, 1), (-5, 1)]
)
def test_they_are_sent_anew_after_half_of_their_time(minutes, after_minutes):
    assert next_refresh(
        NOON + datetime.timedelta(minutes=minutes), NOON
    ) == NOON + datetime.timedelta(minutes=after_minutes)


def test_their_repr_and_their_document():
    lent = LentCredentials("ASIA1", "hunter2", "token3", NOON)
    assert repr(lent) == str(lent) == "LentCredentials(expires_at=2026-11-20T12:00:00Z)"
    assert lent.document() == {
        "AccessKeyId": "ASIA1",
        "SecretAccessKey": "hunter2",
        "Token": "token3",
        "Expiration": "2026-11-20T12:00:00Z",
    }


class OneAws(Aws):
    """An `Aws` that stays what it is, so that its clients' answers can be given."""

    def anew(self):
        return self


def test_where_aws_gives_no_session_the_error_names_the_other_way(monkeypatch):
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA1")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hunter2")
    monkeypatch.delenv("AWS_SESSION_TOKEN", raising=False)
    aws = OneAws("us-east-1")
    with Stubber(aws.client("sts")) as stub:
        stub.add_client_error(
            "get_session_token", "AccessDenied", "refused by a service control policy", 403
        )
        with pytest.raises(AccessDenied, match="GetSessionToken") as caught:
            lend(aws, None)
    aws.client("sts").close()
    assert "network.data_buckets" in caught.value.advice
    assert "hunter2" not in str(caught.value)
