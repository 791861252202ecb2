"""Hosts of the embedded AWS in an environment of conda's packages: built once, from a channel and
an index on loopback that count.
"""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from distributed import Client

from terradask import Cluster
from terradask_simulator import Simulator

from .. import conda_channel
from ..conda_channel import MINOR, PLACEHOLDER, SUBDIR, Link
from ..package_index import publish, serving

pytestmark = [pytest.mark.simulator, pytest.mark.life]

#: What a package of conda-forge such as proj has: a library's data, a link, a script that says
#: where the data is.
GEO: dict[str, conda_channel.Content] = {
    **conda_channel.module(
        "acme-geo", "1.0", "STATE = 'of conda'\n", f"lib/python{MINOR}/site-packages"
    ),
    "share/acme/where.txt": f"{PLACEHOLDER}/share\n".encode(),
    "lib/acme/current": Link("../../share/acme"),
    "etc/conda/activate.d/acme.sh": b'echo hello\nexport ACME_DATA="${CONDA_PREFIX}/share/acme"\n',
    "bin/acme-geo": b"#!/bin/sh\necho the program of acme-geo\n",
}


def _reader() -> Callable[[], dict[str, str]]:
    """Return what reads a worker's environment; workers don't have this module."""

    def read() -> dict[str, str]:
        import subprocess
        import sys
        from os import environ
        from pathlib import Path

        import acme_geo
        import acme_web

        prefix = Path(sys.prefix)
        return {
            "geo": acme_geo.STATE,
            "web": acme_web.STATE,
            "prefix": sys.prefix,
            "data": environ["ACME_DATA"],
            "link": str((prefix / "lib/acme/current").readlink()),
            "where": (prefix / "lib/acme/current/where.txt").read_text().strip(),
            "said": subprocess.check_output(["acme-geo"], text=True),
            "venv": str((prefix / "pyvenv.cfg").exists()),
        }

    return read


def test_hosts_run_in_a_conda_environment_that_one_of_them_builds(
    sim_environ: dict[str, str], sim: Simulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    conda_channel.own_cache(tmp_path / "cache", monkeypatch)
    forge, asked = tmp_path / "forge", list[str]()
    conda_channel.publish_python(forge)
    conda_channel.publish_installed(forge, ["dask", "distributed", "cloudpickle", "bokeh", "pip"])
    needs = [f"python {MINOR}.*"]
    conda_channel.publish_conda(forge, "acme-geo", "1.0", GEO, depends=needs, subdir=SUBDIR)
    conda_channel.index(forge)
    # What conda's packages contain the index hasn't, under whichever name.
    publish(tmp_path, "acme-web", "1.0", "STATE = 'of pip'\n", needs=["acme-geo", "msgpack"])
    with serving(tmp_path, asked) as url:
        monkeypatch.setenv("UV_DEFAULT_INDEX", url)
        channel = url.replace("/simple", "/forge")
        file = tmp_path / "environment.yml"
        file.write_text(
            f"name: team\nchannels: [{channel}]\n"
            "dependencies:\n- acme-geo >=1\n- pip:\n  - acme-web\n"
        )
        with (
            sim.build_environments(index_url=url),
            Cluster("conda", n_workers=2, software=file, wait_for_workers=True) as cluster,
            Client(cluster) as client,
        ):
            found = client.run(_reader())
            times = Counter(path for path in asked if path.endswith(".conda"))
            (python,) = _pythons_of_the_system(sim, "conda")
            of_index = [path for path in asked if path.startswith("/simple/")]
    assert len(found) == 2 == len({facts["prefix"] for facts in found.values()})
    for facts in found.values():
        prefix = facts.pop("prefix")
        assert "/var/lib/terradask/environments/" in prefix
        assert facts.pop("data") == f"{prefix}/share/acme"
        # The scheduler's host built it, at a path that real hosts have too.
        built = facts.pop("where").removesuffix("/share")
        assert Path(built).name == Path(prefix).name
        assert facts == {
            "geo": "of conda",
            "web": "of pip",
            "link": "../../share/acme",
            "said": "the program of acme-geo\n",
            "venv": "False",
        }
    # boot.sh knows no Python of this name, and installs none.
    assert python == "of-conda"
    # One of three hosts asked. The client has read which packages of Python are in the others.
    assert times[f"/forge/{SUBDIR}/python-{platform.python_version()}-0.conda"] == 1
    assert set(of_index) == {"/simple/acme-web/"}


def _pythons_of_the_system(sim: Simulator, cluster: str) -> set[str]:
    """Return the versions that a cluster's hosts are told to install."""
    named = [{"Name": "key", "Values": ["terradask:run:python"]}]
    found = sim.client("autoscaling").describe_tags(Filters=named)["Tags"]
    group = f"terradask-default-{cluster}-"
    return {tag["Value"] for tag in found if tag["ResourceId"].startswith(group)}
