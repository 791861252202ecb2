"""What hosts get, as it is shown before anything is made."""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from terradask._aws.endpoints import ENDPOINT_VARIABLE
from terradask._common.progress import KeptOnce, Message, ProgressEvent, Warned
from terradask._dask.package_check import check_packages
from terradask._software.client_versions import lock_software
from terradask._software.lock import SoftwareLock
from terradask._software.package_sync import describe_packages, lock_environment
from terradask._software.scan import ONLY_DEPLOYMENT
from terradask._software.sync import PackageSync
from terradask.errors import SoftwareUnusable
from terradask_stacks.settings import ClusterSettings

from ..package_index import publish, serving
from .test_package_sync import client

WHY = "needed on this platform only, by jupyter"


@pytest.mark.parametrize(
    ("dropped", "said"),
    [
        ({}, ""),
        ({"jsii": ONLY_DEPLOYMENT}, "; only local, as only terradask needs them: jsii"),
        (
            {**dict.fromkeys("lkjihgfedcba", ONLY_DEPLOYMENT), "appnope": WHY},
            "; only local, as only terradask needs them: a, b, c, d, e, f, g, h, i, j and 2 more"
            "; only local, as only this platform needs them: appnope",
        ),
    ],
)
def test_a_line_says_what_comes_and_what_stays(dropped: dict[str, str], said: str) -> None:
    lock = SoftwareLock("3.12", {"dask": "2026.1.1", "pandas": "3.0.1"}, dropped=dropped)
    assert describe_packages(lock) == f"hosts get 2 packages{said}"


def test_all_is_said_before_anything_is_made_and_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the environment that is there: what comes, what stays, and what hosts do without."""
    monkeypatch.chdir(tmp_path)
    installed = {"dask": (), "terradask": ("jsii", "boto"), "jsii": (), "boto": (), "absent": ()}
    for name, needs in installed.items():
        about = tmp_path / f"site/{name}-1.0.dist-info"
        about.mkdir(parents=True)
        lines = [f"Name: {name}", "Version: 1.0", *(f"Requires-Dist: {need}" for need in needs)]
        (about / "METADATA").write_text("\n".join(lines) + "\n")
        (about / "RECORD").write_text("")
        if name != "absent":
            publish(tmp_path / "index", name, "1.0")
    found = list(importlib.metadata.distributions(path=[str(tmp_path / "site")]))
    monkeypatch.setattr("importlib.metadata.distributions", lambda: found)
    events: list[Any] = []
    progress = KeptOnce(events.append)
    with serving(tmp_path / "index") as url:
        environ = client(url, tmp_path / "cache")
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        lock = lock_environment(PackageSync(), "x86_64", environ)
        assert lock.dropped == {"jsii": ONLY_DEPLOYMENT}
        assert lock_environment(PackageSync(["dask"]), "x86_64", environ).dropped == {}
        for _ in range(2):
            check_packages(
                cast(Any, SimpleNamespace(name="etl")),
                ClusterSettings(package_sync=True),
                None,
                architecture="x86_64",
                progress=progress,
            )
    resolving = Message("etl: resolving packages for hosts")
    assert events == [
        resolving,
        Message(
            "etl: hosts get 2 packages; only local, as only terradask needs them: jsii", kept=True
        ),
        Warned("hosts don't get absent (no index has it)"),
        resolving,
    ]


def test_a_mistake_in_a_name_is_not_advised_to_be_installed_first() -> None:
    """An index may have another author's package under it."""
    with pytest.raises(SoftwareUnusable, match="differs from the client") as caught:
        lock_software(["distribute"])
    assert "did you mean distributed? Otherwise pip install 'distribute'" in str(caught.value)
    with pytest.raises(SoftwareUnusable, match=r"did you mean cloudpickle\?"):
        lock_environment(PackageSync(["cloudpikle"]), "x86_64", {})
    with pytest.raises(SoftwareUnusable, match="to do: pip install 'zzzqqq', or leave"):
        lock_software(["zzzqqq"])


def test_what_hosts_do_not_get_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On an embedded AWS no package, and nowhere the modules of here, unless they are asked for."""
    (tmp_path / "own_steps.py").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "own_steps", raising=False)
    importlib.import_module("own_steps")
    monkeypatch.setenv(ENDPOINT_VARIABLE, "http://127.0.0.1:5000")

    def said(**given: Any) -> list[str]:
        events: list[ProgressEvent] = []
        check_packages(
            cast(Any, SimpleNamespace(name="etl")),
            ClusterSettings(**given),
            None,
            architecture="x86_64",
            progress=events.append,
        )
        return [each.text for each in events if isinstance(each, Message | Warned)]

    modules, packages = said()
    assert modules.startswith("etl: hosts don't get own_steps, which this process has imported")
    assert "local_modules=True" in modules
    assert packages == (
        "etl: package_sync is off on the embedded AWS, whose hosts run in its own environment"
    )
    assert said(local_modules=True) == [packages]
    assert said(package_sync=False) == [modules]
