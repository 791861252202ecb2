"""This process logs as a Cluster is asked to, and as before when it is closed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from terradask import Cluster
from terradask._dask.progress import OwnLogging
from terradask._dask.provision import Provisioner
from terradask.errors import InvalidInput


@pytest.fixture
def own() -> Iterator[logging.Logger]:
    """terradask's logger, as a fresh process has it."""
    logger = logging.getLogger("terradask")
    before = logger.handlers[:], logger.level, logger.propagate
    logger.handlers[:] = []
    yield logger
    logger.handlers[:], logger.level, logger.propagate = before


@pytest.mark.parametrize(("given", "level"), [(True, 40), ("warning", 30), (10, 10)])
def test_dask_logs_less_until_the_close(given: bool | int | str, level: int) -> None:
    logger, handler = logging.getLogger("distributed"), logging.StreamHandler()
    logger.addHandler(handler)
    try:
        logged = OwnLogging(given)
        assert handler.level == 0
        logged.begin(configure=None)
        assert handler.level == level
        logged.close()
        assert handler.level == 0
        OwnLogging(False).begin(configure=None)
        assert handler.level == 0
    finally:
        logger.removeHandler(handler)


@pytest.mark.parametrize("given", ["loud", 1.5, -1, None])
def test_what_is_no_level_is_refused(given: object) -> None:
    with pytest.raises(InvalidInput, match="silence_logs is not a logging level"):
        OwnLogging(given)  # type: ignore[arg-type]


def test_what_terradask_logs_is_shown_once(
    own: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    OwnLogging(False).begin(configure=None)
    own.info("not asked for")
    OwnLogging(False).begin(configure=True)
    OwnLogging(False).begin(configure=True)
    own.info("shown")
    assert not own.propagate
    shown = capsys.readouterr().err
    assert "not asked for" not in shown
    assert shown.endswith(" - terradask - INFO - shown\n")
    assert shown.count("\n") == 1


def test_what_is_logged_while_the_cluster_is_made_is_shown(
    own: logging.Logger, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_provisioner: Provisioner) -> None:
        own.info("etl: planning")
        raise ValueError("no network")

    monkeypatch.setattr(Provisioner, "run", fail)
    dasks, handler = logging.getLogger("distributed"), logging.StreamHandler()
    dasks.addHandler(handler)
    try:
        with pytest.raises(ValueError, match="no network"):
            Cluster("etl", configure_logging=True, silence_logs=True)
        assert handler.level == 0
    finally:
        dasks.removeHandler(handler)
    assert capsys.readouterr().err.endswith(" - terradask - INFO - etl: planning\n")


def test_handlers_of_the_users_own_stay_alone(own: logging.Logger) -> None:
    own.addHandler(logging.NullHandler())
    OwnLogging(False).begin(configure=True)
    assert len(own.handlers) == 1
    assert own.propagate
