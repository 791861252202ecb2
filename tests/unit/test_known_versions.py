"""What Dask warns of when versions differ: what terradask chose isn't worth a word."""

from __future__ import annotations

import asyncio
import copy
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from distributed import Client, Scheduler, versions
from distributed.versions import VersionMismatchWarning, error_message

from terradask_host.preload.replaced import (
    expect_known_differences,
    with_patch_of,
    without_known,
)

from ..waiting import HANG_SECONDS

HOST = {"packages": {"python": "3.12.4.final.0", "dask": "2026.8.0", "pandas": None, "lz4": None}}


def differing(base: dict[str, Any] = HOST, **packages: str | None) -> dict[str, Any]:
    return {**base, "packages": {**base["packages"], **packages}}


def warned_of(client: Any, scheduler: Any = HOST, *workers: Any) -> str:
    hosts = [scheduler, *workers]
    return str(
        error_message(
            scheduler, dict(zip("abc", workers, strict=False)), without_known(client, hosts)
        )["warning"]
    )


def test_another_patch_release_and_what_one_side_lacks_are_no_mismatch() -> None:
    client = differing(python="3.12.11.final.0", pandas="3.1.1", lz4="4.4.5")
    assert error_message(HOST, {"a": HOST}, client)["warning"]
    assert warned_of(client, HOST, HOST) == ""
    assert warned_of(client) == ""
    # Hosts have it for the dashboard; the client needs none.
    lacking, there = differing(pandas=None), differing(pandas="2.0.0")
    assert error_message(there, {"a": there}, lacking)["warning"]
    assert warned_of(lacking, there, there) == ""
    assert warned_of(lacking, HOST, there) == ""
    assert "pandas" in warned_of(lacking, there, there, differing(pandas="1.0.0"))


@pytest.mark.parametrize(
    ("client", "hosts"),
    [
        ({"python": "3.13.1.final.0"}, {}),
        ({"dask": "2026.7.0"}, {}),
        # One host has it: in another version, a pickle may not fit.
        ({"pandas": "3.1.1"}, {"pandas": "2.0.0"}),
    ],
)
def test_a_true_mismatch_still_warns(
    client: dict[str, str | None], hosts: dict[str, str | None]
) -> None:
    (name,) = client
    assert name in warned_of(differing(**client), HOST, differing(**hosts))


@pytest.mark.parametrize("unknown", [None, {}, {"packages": None}, "none", {"packages": {}}])
def test_versions_of_no_known_form_stay_as_they_are(unknown: Any) -> None:
    assert without_known(unknown, [HOST]) == unknown
    assert with_patch_of(unknown, HOST) == unknown
    assert with_patch_of(HOST, unknown) == HOST


def test_workers_of_another_patch_release_are_no_mismatch_either() -> None:
    """Groups may have images of their own."""
    assert with_patch_of(differing(python="3.12.1.final.0"), HOST) == HOST
    assert with_patch_of(differing(python="3.11.1.final.0"), HOST) != HOST


def connect(monkeypatch: pytest.MonkeyPatch, packages: dict[str, str], *, known: bool) -> list[str]:
    """Return what a client with these packages is warned of when it connects to a scheduler."""
    own = versions.get_versions()
    there = copy.deepcopy(own)
    there["packages"] |= packages
    told = SimpleNamespace(
        get_versions=lambda: there, VersionMismatchWarning=VersionMismatchWarning
    )
    monkeypatch.setattr("distributed.client.version_module", told)

    async def main() -> None:
        scheduler = Scheduler(host="127.0.0.1", port=0, dashboard_address=":0")
        if known:
            expect_known_differences(scheduler)
        async with scheduler, Client(scheduler.address, asynchronous=True, timeout=HANG_SECONDS):
            pass

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", VersionMismatchWarning)
        asyncio.run(main())
    return [str(each.message) for each in caught if each.category is VersionMismatchWarning]


def test_a_client_of_a_real_scheduler_is_warned_of_a_true_mismatch_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    major, minor, *_ = versions.get_versions()["packages"]["python"].split(".")
    known = {"python": f"{major}.{minor}.99.final.0", "only-here": "1.0"}
    assert connect(monkeypatch, known, known=False)
    assert connect(monkeypatch, known, known=True) == []
    (warning,) = connect(monkeypatch, {"dask": "2000.1.0"}, known=True)
    assert "2000.1.0" in warning
