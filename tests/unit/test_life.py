"""What settings and arguments say of a run's life, as it travels in ``run.json``, and what is said
of a run that is over.
"""

import datetime
import json
import threading
from types import SimpleNamespace

import pytest

from terradask import Cluster
from terradask._clusters.lifetime import lifetime_policy, parse_duration
from terradask._common.progress import silent
from terradask._dask.launch import Launch
from terradask._dask.request import Request
from terradask._dask.rollback import Made
from terradask._observe.documents import SILENT, read_address, read_run, stopped_error
from terradask.errors import InvalidInput
from terradask_host.documents import Ended, LifetimePolicy, Run, SchedulerAddress
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.settings.life import MOST_LIFETIME_SECONDS

RUN = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2)
SCHEDULER = SchedulerAddress(
    "r1",
    "i-1",
    1,
    "tls://10.0.0.1:8786",
    None,
    8787,
    "3.11",
    {},
    Ended("2026-11-20T06:15:00Z", "idle for ever"),
)


@pytest.mark.parametrize(
    ("given", "seconds"),
    [
        (None, None),
        (False, False),
        ("20 minutes", 1200),
        ("30s", 30),
        ("90", 90),
        (5, 5),
        (0.5, 0.5),
        (datetime.timedelta(hours=2), 7200),
    ],
)
def test_durations(given, seconds):
    assert parse_duration("idle_timeout", given) == seconds
    assert (parse_duration("idle_timeout", given) is False) is (given is False)


@pytest.mark.parametrize(
    "given",
    [True, 0, -1, "0 minutes", "soon", "-1h", "20 parsecs", "", float("nan"), float("inf"), [], {}],
)
def test_what_is_no_duration_is_refused_before_anything_is_made(given):
    for argument in ("idle_timeout", "no_client_timeout", "max_lifetime"):
        with pytest.raises(InvalidInput, match=argument):
            Cluster("etl", **{argument: given})


@pytest.mark.parametrize("value", [True, 0, -5, "20 minutes", float("inf"), float("nan")])
def test_settings_are_seconds_or_false(value):
    for setting in ("idle_timeout_seconds", "no_client_timeout_seconds"):
        assert getattr(ClusterSettings(**{setting: 5}), setting) == 5
        assert getattr(ClusterSettings(**{setting: False}), setting) is False
        with pytest.raises(ValueError, match="not a limit in seconds"):
            ClusterSettings(**{setting: value})
    for value_ in (0, MOST_LIFETIME_SECONDS + 1, False):
        with pytest.raises(ValueError, match="max_lifetime_seconds"):
            ClusterSettings(max_lifetime_seconds=value_)


@pytest.mark.parametrize(
    ("settings", "closes", "idle", "yields", "no_client"),
    [
        ({}, False, 1200, True, None),
        ({}, True, 1200, True, 120),
        ({"idle_timeout_seconds": 60, "no_client_timeout_seconds": 30}, False, 60, False, 30),
        (
            {"idle_timeout_seconds": False, "no_client_timeout_seconds": False},
            True,
            None,
            False,
            None,
        ),
    ],
)
def test_what_settings_mean_for_a_run(settings, closes, idle, yields, no_client):
    for each in (ClusterSettings.read(settings), ClusterSettings(**settings)):
        life = lifetime_policy(each, closes_with_client=closes)
        assert life == LifetimePolicy(idle, yields, no_client, MOST_LIFETIME_SECONDS, 600, False)


def test_a_run_tells_its_life_and_older_ones_have_none():
    life = lifetime_policy(ClusterSettings(), closes_with_client=True, destroyed_after=True)
    document = json.loads(json.dumps(Run(**{**vars(RUN), "life": life}).to_document()))
    assert read_run(document).life == life
    assert (
        read_run({**document, "life": {**document["life"], "of_a_later_version": 1}}).life == life
    )
    assert read_run({k: v for k, v in document.items() if k != "life"}).life is None
    assert life.no_client_timeout_seconds == 120
    # Hosts that are told nothing go by what the settings go by.
    assert LifetimePolicy().idle_timeout_seconds == life.idle_timeout_seconds
    assert (
        read_address({"format": 1, **vars(SCHEDULER), "ended": vars(SCHEDULER.ended)}) == SCHEDULER
    )


@pytest.mark.parametrize(
    ("closes", "origin", "declared", "no_client", "destroyed"),
    [
        (None, "created", False, 120, True),
        (True, "created", False, 120, True),
        (False, "created", False, None, False),
        # Whoever declares a cluster, or deployed it before, keeps it.
        (None, "created", True, 120, False),
        (None, "started", False, 120, False),
    ],
)
def test_a_cluster_that_was_made_to_close_with_its_client_goes_with_it(
    closes, origin, declared, no_client, destroyed
):
    settings = Settings(clusters={"etl": {}} if declared else {})
    made = Made(SimpleNamespace(settings=settings), None, origin)
    life = Launch(
        *(Request("etl", shutdown_on_close=closes), settings.cluster, made, silent),
        on_status=lambda deployment, status: None,
        cancelled=threading.Event(),
    ).life()
    assert (life.no_client_timeout_seconds, life.destroyed_after) == (no_client, destroyed)


def test_what_is_said_of_a_run_that_is_over():
    ended = stopped_error("etl", "r1", RUN, SCHEDULER)
    assert (ended.reason, ended.at, ended.exit_code) == ("idle for ever", "2026-11-20T06:15:00Z", 6)
    for part in ("'etl' has ended by itself", "idle for ever", "terradask start etl"):
        assert part in str(ended)
    for nothing in (
        None,
        SchedulerAddress(**{**vars(SCHEDULER), "ended": None}),
        SchedulerAddress(**{**vars(SCHEDULER), "run_id": "r0"}),
    ):
        silent = stopped_error("etl", None, RUN, nothing)
        assert (silent.reason, silent.at) == (SILENT, None)
    for run_id, run in (("r1", None), ("r0", RUN), (None, None)):
        stopped = stopped_error("etl", run_id, run, SCHEDULER)
        assert (stopped.reason, stopped.at, stopped.cluster) == (None, None, "etl")
        assert "is stopped" in str(stopped)
