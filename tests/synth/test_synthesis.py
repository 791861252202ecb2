"""Synthesis as a whole: the same bytes every time, folders that Terraform and the cdktf command
take, a cache that needs no Node.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from terradask_modules.errors import InvalidInput
from terradask_stacks.app import render
from terradask_stacks.inputs import ClusterInputs
from terradask_stacks.lock import ClusterLock, LockFile, NetworkLock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import LOCK_HCL, synthesize

ROOT = Path(__file__).parents[2]

LOCK = LockFile(
    network=NetworkLock(
        account="123456789012",
        zones={"us-east-1b": 1, "us-east-1a": 0},
        image_ids={"x86_64": "ami-12c6146b"},
    ),
    clusters={
        "etl": ClusterLock(
            account="123456789012",
            zone="us-east-1a",
            scheduler_instance_types=["m6i.xlarge"],
            worker_instance_types=["m6i.xlarge"],
        )
    },
)
CLUSTERS = {"etl": ClusterSettings()}

PROGRAM = """
import sys
from pathlib import Path
from terradask_stacks.lock import read_lock
from terradask_stacks.settings import ClusterSettings, Settings
from terradask_stacks.synthesis import synthesize
folder = Path(sys.argv[1])
synthesize(
    Settings(), read_lock(folder / "lock.json"), out_dir=folder / sys.argv[2],
    clusters={"etl": ClusterSettings()},
    cache_dir=folder / "cache",
)
print("cdktf" in sys.modules, "jsii" in sys.modules)
"""


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_same_settings_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("once", "again"):
        synthesize(Settings(), LOCK, out_dir=tmp_path / name, clusters=CLUSTERS)
    alone = synthesize(
        Settings(), LOCK, out_dir=tmp_path / "alone", stacks=["etl"], clusters=CLUSTERS
    )

    assert digests(tmp_path / "once") == digests(tmp_path / "again")
    text = (alone["etl"] / "cdk.tf.json").read_bytes()
    assert text == (tmp_path / "once/stacks/etl/cdk.tf.json").read_bytes()


def test_a_kept_result_needs_no_node_and_no_framework(tmp_path: Path) -> None:
    from terradask_stacks.lock import write_lock

    write_lock(tmp_path / "lock.json", LOCK)

    def run(out: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM, str(tmp_path), out],
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stderr == ""
        return done.stdout.strip()

    assert run("first") == "True True"
    assert run("second") == "False False"
    assert digests(tmp_path / "first") == digests(tmp_path / "second")
    assert "stacks/network/cdk.tf.json" in digests(tmp_path / "first")


def test_a_damaged_result_is_made_again(tmp_path: Path) -> None:
    def run(out: str) -> dict[str, str]:
        synthesize(
            Settings(),
            LOCK,
            out_dir=tmp_path / out,
            stacks=["etl"],
            clusters=CLUSTERS,
            cache_dir=tmp_path / "cache",
        )
        return digests(tmp_path / out)

    first = run("first")
    (kept,) = (tmp_path / "cache").iterdir()
    kept.write_text(kept.read_text()[:-100])

    assert run("second") == first


@pytest.mark.parametrize(
    "changed",
    [
        {"workspace": {"tags": {"team": "a"}}},
        {"cluster": {"max_workers": 3}},
        {"cluster": {"environ": {"A": "1"}}},
    ],
)
def test_other_settings_are_another_result(tmp_path: Path, changed: dict[str, Any]) -> None:
    other = Settings.model_validate(changed)
    for settings in (Settings(), other):
        synthesize(
            settings,
            LOCK,
            out_dir=tmp_path / "out",
            stacks=["etl"],
            clusters={"etl": settings.cluster},
            cache_dir=tmp_path / "cache",
        )

    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_folders_are_what_terraform_and_the_command_take(tmp_path: Path) -> None:
    folders = synthesize(Settings(), LOCK, out_dir=tmp_path, clusters=CLUSTERS)
    manifest = json.loads((tmp_path / "manifest.json").read_text())

    assert folders == {"network": tmp_path / "stacks/network", "etl": tmp_path / "stacks/etl"}
    assert manifest["version"] == "0.21.0"
    assert {name: entry["dependencies"] for name, entry in manifest["stacks"].items()} == {
        "network": [],
        "etl": ["network"],
    }
    for name, folder in folders.items():
        assert tmp_path / manifest["stacks"][name]["synthesizedStackPath"] == folder / "cdk.tf.json"
        assert (folder / ".terraform.lock.hcl").read_bytes() == LOCK_HCL.read_bytes()
    network = json.loads((folders["network"] / "cdk.tf.json").read_text())
    wheel = network["resource"]["aws_s3_object"]["host-wheel"]
    content = (folders["network"] / wheel["source"]).read_bytes()
    assert hashlib.sha256(content).hexdigest() == wheel["source_hash"]
    assert wheel["key"] == f"host/{wheel['source_hash']}/{Path(wheel['source']).name}"


def test_the_manifest_is_the_one_that_the_framework_writes(tmp_path: Path) -> None:
    from terradask_modules.aws import APP_CONTEXT, App, TerraformStack

    app = App(outdir=str(tmp_path / "theirs"), context=APP_CONTEXT)
    TerraformStack(app, "etl").add_dependency(TerraformStack(app, "network"))
    app.synth()
    synthesize(Settings(), LOCK, out_dir=tmp_path / "ours", clusters=CLUSTERS)

    theirs, ours = (
        json.loads((tmp_path / who / "manifest.json").read_text()) for who in ("theirs", "ours")
    )
    assert ours == theirs


def test_the_shipped_lock_file_is_the_projects() -> None:
    assert LOCK_HCL.read_bytes() == (ROOT / ".terraform.lock.hcl").read_bytes()


REFUSED: dict[str, tuple[type[Exception], dict[str, Any]]] = {
    "terradask plan network": (InvalidInput, {"lock": LockFile(), "stacks": ["network"]}),
    "terradask plan etl": (InvalidInput, {"lock": LockFile(), "stacks": ["etl"]}),
    "allowed: network, etl": (InvalidInput, {"stacks": ["nightly"]}),
}


@pytest.mark.parametrize("says", REFUSED)
def test_what_can_not_be_made_says_what_to_do(tmp_path: Path, says: str) -> None:
    error, case = REFUSED[says]

    with pytest.raises(error, match=says):
        synthesize(Settings(), **{"lock": LOCK, "out_dir": tmp_path, "clusters": CLUSTERS, **case})
    assert list(tmp_path.iterdir()) == []


def test_what_the_framework_refuses_is_an_error_of_ours() -> None:
    inputs = ClusterInputs(
        settings=Settings(), cluster=ClusterSettings(), lock=LOCK.clusters["etl"], name="a name"
    )

    with pytest.raises(InvalidInput, match="can't be synthesised") as error:
        render([inputs])
    assert error.value.given == "a name"


def test_a_name_that_is_put_in_gives_what_a_synthesis_under_it_gives(tmp_path: Path) -> None:
    settings = Settings.model_validate({"workspace": {"tags": {"for": "etl"}}})
    plain = ClusterSettings(tags={"cluster": "etl", "of": "a"}, environ={"NAME": "etl-${name}"})
    clusters = {"a": plain, "etl": plain, "c" * 32: plain, "other": ClusterSettings(max_workers=7)}
    lock = LockFile(clusters=dict.fromkeys(clusters, LOCK.clusters["etl"]))
    written = synthesize(settings, lock, out_dir=tmp_path, stacks=list(clusters), clusters=clusters)

    inputs = [
        ClusterInputs(settings=settings, cluster=cluster, lock=lock.clusters[name], name=name)
        for name, cluster in clusters.items()
    ]
    assert {
        name: (folder / "cdk.tf.json").read_text() for name, folder in written.items()
    } == render(inputs)


def test_clusters_that_differ_in_their_names_alone_are_synthesised_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rendered: list[str] = []

    def text_of(name: str) -> str:
        return json.dumps({"//": {"metadata": {"stackName": name, "version": "0"}}})

    def counting(stacks: Any, whose: str) -> dict[str, str]:
        names = [inputs.name for inputs in stacks]
        rendered.extend(names)
        return {name: text_of(name) for name in names}

    monkeypatch.setattr("terradask_stacks.app.render", counting)
    clusters = {"a": ClusterSettings(), "b": ClusterSettings(), "c": ClusterSettings(max_workers=7)}
    lock = LockFile(clusters=dict.fromkeys([*clusters, "d"], LOCK.clusters["etl"]))

    def run(settings: Settings, out: str) -> dict[str, str]:
        written = synthesize(
            settings,
            lock,
            out_dir=tmp_path / out,
            clusters=clusters,
            stacks=list(clusters),
            cache_dir=tmp_path / "cache",
        )
        return {name: (folder / "cdk.tf.json").read_text() for name, folder in written.items()}

    assert run(Settings(), "one") == {name: text_of(name) for name in clusters}
    assert len(rendered) == 2
    clusters["d"] = clusters["a"]
    assert run(Settings(), "two")["d"] == text_of("d")
    assert len(rendered) == 2
    # What shortens a name can't have it put in.
    run(Settings.model_validate({"workspace": {"isolation": "cluster"}}), "three")
    assert rendered[2:] == ["a", "b", "c", "d"]


def test_what_cannot_be_synthesised_is_told_by_the_names_that_were_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: Any) -> None:
        raise RuntimeError("no such thing\n  at node:internal")

    monkeypatch.setattr("terradask_stacks.app._add", failing)
    with pytest.raises(InvalidInput) as error:
        synthesize(Settings(), LOCK, out_dir=tmp_path, clusters=CLUSTERS)
    assert error.value.given == "network, etl"
    assert error.value.problem == "the stacks can't be synthesised: no such thing"
