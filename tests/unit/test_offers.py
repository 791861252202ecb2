"""Offers: what loading refuses in them, and what their clusters may choose."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from IPython.core.completer import provisionalcompleter
from IPython.core.interactiveshell import InteractiveShell

import terradask
from terradask import Cluster
from terradask._clusters.worker_counts import check_workers
from terradask._dask.decision import check_offer
from terradask._workspace.offers import find_offers
from terradask.cli import _run_command
from terradask.errors import InvalidInput, SettingsError
from terradask_stacks.choices import _RANGES, _SIZES, Choice, _has_bounds
from terradask_stacks.loading import load_settings
from terradask_stacks.offers import FREE
from terradask_stacks.settings import ClusterSettings, Settings

from ..command import in_this_process
from .group_facts import descriptor
from .settings_files import problems, write

OFFERS = """
[cluster]
connect = "ssm"
tags = { team = "research" }

[offers.small]
description = "A cluster for a try"
worker_memory = "16 GiB"
n_workers = 2
max_lifetime_seconds = 14400
[offers.small.choose]
n_workers = { min = 1, max = 8 }
worker_memory = { min = "8 GiB", max = "64 GiB" }
spot_policy = ["on-demand", "spot"]
arm = "any"
idle_timeout_seconds = "any"

[offers.types]
worker_vm_types = ["g5.xlarge"]
environ = { MODE = "gpu" }
[offers.types.choose]
worker_vm_types = ["g5.xlarge", "g6.xlarge"]
"""


def chosen(
    path: Path,
    name: str = "mine",
    *,
    variables: dict[str, str] | None = None,
    dask_config: dict[str, Any] | None = None,
    **given: Any,
) -> ClusterSettings:
    """Load settings with arguments, and return those of a cluster."""
    loaded = load_settings(
        path, environ=variables or {}, dask_config=dask_config, overrides={"cluster": given}
    )
    return loaded.settings.cluster_named(name)


def refused(path: Path, name: str = "mine", **given: Any) -> dict[str, Any]:
    """Choose what can't be chosen; return the findings by place."""
    with pytest.raises(SettingsError) as error:
        chosen(path, name, **given)
    return {finding.where: finding for finding in error.value.findings}


# ---- offers that can't be used -------------------------------------------------------------------

N = "n_workers = 2\n"


@pytest.mark.parametrize(
    ("own", "choose", "key", "says"),
    [
        # Unknown settings, at both places.
        ("worker_cpus = 4", "", "offers.it.worker_cpus", "did you mean worker_cpu?"),
        ("offer = 'other'", "", "offers.it.offer", "cluster.offer"),
        ("cluster = { n_workers = 1 }", "", "offers.it.cluster", "no setting 'cluster'"),
        ("", "n_worker = 'any'", "offers.it.choose.n_worker", "did you mean n_workers?"),
        ("", "offer = 'any'", "offers.it.choose.offer", "no setting of [cluster] to choose"),
        ("", "description = 'any'", "offers.it.choose.description", "no setting of [cluster]"),
        # Fixed values of the wrong type.
        ("worker_cpu = 'four'", "", "offers.it.worker_cpu", "not a number of cores"),
        ("description = 3", "", "offers.it.description", "a text"),
        ("choose = 3", "", "offers.it.choose", "a table"),
        # Choices of the wrong form.
        (N, "n_workers = 8", "offers.it.choose.n_workers", "{ min = 1, max = 8 }"),
        (N, "n_workers = [1, 8]", "offers.it.choose.n_workers", "{ min = 1, max = 8 }"),
        (N, "n_workers = 'all'", "offers.it.choose.n_workers", "or 'any'"),
        (N, "n_workers = {}", "offers.it.choose.n_workers", "neither min nor max"),
        (N, "n_workers = { least = 1 }", "offers.it.choose.n_workers", "no such bound"),
        ("", "spot_policy = { max = 'spot' }", "offers.it.choose.spot_policy", "a list of values"),
        ("", "spot_policy = []", "offers.it.choose.spot_policy", "a list of values"),
        ("", "tags = ['team']", "offers.it.choose.tags", "allowed: 'any'"),
        ("", "worker_groups = [1]", "offers.it.choose.worker_groups", "allowed: 'any'"),
        # Bounds of the wrong type or unit.
        (N, "n_workers = { max = 'eight' }", "offers.it.choose.n_workers", "whole number"),
        (N, "n_workers = { max = 1.5 }", "offers.it.choose.n_workers", "whole number"),
        (N, "n_workers = { min = [1, 2] }", "offers.it.choose.n_workers", "one number or size"),
        (N, "n_workers = { min = 3, max = 1 }", "offers.it.choose.n_workers", "min is more"),
        (
            "worker_memory = '16 GiB'",
            "worker_memory = { max = 64 }",
            "offers.it.choose.worker_memory",
            "write the unit",
        ),
        (
            "worker_memory = '16 GiB'",
            "worker_memory = { max = '64 hours' }",
            "offers.it.choose.worker_memory",
            "not a size of memory",
        ),
        (
            "worker_disk_size = 100",
            "worker_disk_size = { max = 99999 }",
            "offers.it.choose.worker_disk_size",
            "16384 or less",
        ),
        (
            "worker_disk_size = 100",
            "worker_disk_size = { max = '1 TiB' }",
            "offers.it.choose.worker_disk_size",
            "a whole number",
        ),
        ("", "spot_policy = ['cheap']", "offers.it.choose.spot_policy", "'spot_with_fallback'"),
        (
            "worker_vm_types = ['g5.xlarge']",
            "worker_vm_types = ['g5.xlarge', 'g5']",
            "offers.it.choose.worker_vm_types",
            "g5",
        ),
        # What nobody chooses isn't within the choice.
        ("n_workers = 9", "n_workers = { max = 8 }", "offers.it.choose.n_workers", "given: 9"),
        ("", "n_workers = { min = 6, max = 8 }", "offers.it.choose.n_workers", "given: [4, 8]"),
        ("", "worker_cpu = { max = 8 }", "offers.it.choose.worker_cpu", "has no default"),
        (
            "worker_cpu = '*'",
            "worker_cpu = { max = 8 }",
            "offers.it.choose.worker_cpu",
            "isn't within it",
        ),
        ("", "spot_policy = ['spot']", "offers.it.choose.spot_policy", "given: 'on-demand'"),
        (
            "idle_timeout_seconds = false",
            "idle_timeout_seconds = { max = 3600 }",
            "offers.it.choose.idle_timeout_seconds",
            "at most 3600",
        ),
        ("", "zone_name = ['us-east-1a']", "offers.it.choose.zone_name", "has no default"),
        # Limits that disagree.
        (
            "n_workers = 2\nmax_workers = 20",
            "n_workers = { max = 8 }",
            "offers.it.choose.n_workers",
            "scale beyond this bound",
        ),
        (
            "n_workers = 2\nmax_workers = 4",
            "n_workers = { max = 8 }",
            "offers.it.choose.n_workers",
            "less than this bound",
        ),
        (N, "n_workers = { min = 1 }", "offers.it.choose.n_workers", "no largest number"),
        (N, "n_workers = 'any'", "offers.it.choose.n_workers", "set max_workers"),
        (
            N,
            "n_workers = { max = 8 }\nmax_workers = 'any'",
            "offers.it.choose.n_workers",
            "scale beyond",
        ),
        (
            "worker_vm_types = ['g5.xlarge']",
            "worker_cpu = { max = 8 }",
            "offers.it.choose.worker_cpu",
            "takes the place of worker_vm_types",
        ),
    ],
)
def test_an_offer_that_cant_be_used_names_its_key(
    tmp_path: Path, own: str, choose: str, key: str, says: str
) -> None:
    text = f"[offers.it]\n{own}\n" + (f"[offers.it.choose]\n{choose}\n" if choose else "")
    path = write(tmp_path, text)
    with pytest.raises(SettingsError) as error:
        load_settings(path, environ={})
    (finding,) = error.value.findings
    assert finding.where.startswith(f"{key} in {path}")
    assert says in str(error.value)


def test_every_offers_problems_are_shown_together(tmp_path: Path) -> None:
    text = "[offers.a.choose]\nn_worker = 'any'\n[offers.b.choose]\ntags = 1\nspot_policy = 2\n"
    found = problems(write(tmp_path, text))
    assert [where.partition(" in ")[0] for where in found] == [
        *("offers.a.choose.n_worker", "offers.b.choose.tags", "offers.b.choose.spot_policy"),
    ]


@pytest.mark.parametrize("name", ["Small", "a b", "x" * 27, "-a"])
def test_a_name_that_no_stack_could_have_is_refused(tmp_path: Path, name: str) -> None:
    found = problems(write(tmp_path, f'[offers."{name}"]\n'))
    assert "the offer's name can't be used" in str(next(iter(found.values())))


# ---- what its clusters may choose ----------------------------------------------------------------


def test_an_offers_settings_are_the_base_and_choices_are_above(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)

    plain, most = chosen(path, offer="small"), chosen(path, offer="small", n_workers=8)

    assert (plain.n_workers, plain.max_workers, plain.worker_memory) == (2, 8, "16 GiB")
    assert (plain.connect, plain.tags) == ("ssm", {"team": "research"})
    assert (most.n_workers, most.max_workers, most.offer) == (8, 8, "small")
    other = chosen(path, offer="small", n_workers=[1, 8], spot_policy="spot", arm=True)
    assert (other.n_workers, other.spot_policy, other.arm) == ([1, 8], "spot", True)
    assert chosen(path).offer is None
    assert chosen(path).max_workers == 200
    types = chosen(path, offer="types", worker_vm_types=["g6.xlarge", "g5.xlarge"])
    assert types.worker_vm_types == ["g6.xlarge", "g5.xlarge"]
    # Nothing is said of the number, so it is the usual one.
    assert types.max_workers == 20


def test_what_runs_on_the_machines_is_free_unless_the_offer_sets_it(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)

    free = chosen(path, offer="small", environ={"A": "1"}, software=["pandas"], connect="public")

    assert (free.environ, free.software, free.connect) == ({"A": "1"}, ["pandas"], "public")
    found = refused(path, offer="types", environ={"MODE": "hidden"})
    assert list(found) == ["argument environ"]
    assert "sets it, for all of its clusters" in str(found["argument environ"])
    assert "hidden" not in str(found["argument environ"])


def test_every_free_setting_is_one_and_none_costs_or_opens_anything() -> None:
    assert set(ClusterSettings.model_fields) >= FREE
    for name in (
        *("n_workers", "max_workers", "worker_groups", "spot_policy", "worker_vm_types"),
        *("allow_ingress_from", "ingress", "allow_ssh", "use_dashboard_https", "jupyter"),
        *("idle_timeout_seconds", "max_lifetime_seconds", "scheduler_options", "metrics", "tags"),
    ):
        assert name not in FREE


@pytest.mark.parametrize(
    ("given", "where", "says"),
    [
        ({"n_workers": 9}, "n_workers", "given: 9\n  allowed: 1 to 8"),
        ({"n_workers": 300}, "n_workers", "given: 300\n  allowed: 1 to 8"),
        ({"n_workers": 0}, "n_workers", "allowed: 1 to 8"),
        ({"n_workers": [1, 9]}, "n_workers", "allowed: 1 to 8"),
        ({"worker_memory": "65 GiB"}, "worker_memory", "allowed: 8 GiB to 64 GiB"),
        ({"worker_memory": "*"}, "worker_memory", "allowed: 8 GiB to 64 GiB"),
        ({"worker_memory": ["4 GiB", "16 GiB"]}, "worker_memory", "allowed: 8 GiB to 64 GiB"),
        ({"spot_policy": "spot_with_fallback"}, "spot_policy", "allowed: on-demand, spot"),
        ({"max_lifetime_seconds": 99999}, "max_lifetime_seconds", "offer 'small' sets it"),
        ({"worker_cpu": 4}, "worker_cpu", "offer 'small' doesn't offer it"),
        ({"worker_vm_types": ["p5.48xlarge"]}, "worker_vm_types", "doesn't offer it"),
        ({"worker_groups": {"gpu": {"gpu": 8}}}, "worker_groups", "doesn't offer it"),
        ({"max_workers": 9}, "max_workers", "only the offer's value, 8"),
        ({"tags": {"team": "other"}}, "tags", "only the offer's value, {'team': 'research'}"),
        ({"allow_ssh": True, "allow_ssh_from": "10.0.0.1/32"}, "allow_ssh", "doesn't offer it"),
    ],
)
def test_what_isnt_offered_is_refused(
    tmp_path: Path, given: dict[str, Any], where: str, says: str
) -> None:
    found = refused(write(tmp_path, OFFERS), offer="small", **given)
    finding = found[f"argument {where}"]
    assert says in str(finding)
    assert "`terradask offers small`" in str(finding)
    assert "offer 'small'" in str(finding)


def test_a_choice_by_types_cant_be_left_by_another_way(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)
    assert list(refused(path, offer="types", worker_cpu=64)) == ["argument worker_cpu"]
    found = refused(path, offer="types", worker_vm_types=["g6.xlarge", "p5.48xlarge"])
    assert "allowed: g5.xlarge, g6.xlarge" in str(found["argument worker_vm_types"])


def test_a_lower_maximum_is_always_allowed(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)
    assert chosen(path, offer="small", max_workers=3).max_workers == 3
    assert "argument max_workers" in refused(path, offer="types", max_workers=3)


def test_a_maximum_that_is_a_choice_bounds_the_number(tmp_path: Path) -> None:
    bounds = "n_workers = { max = 9 }\nmax_workers = { max = 9 }\n"
    own = "n_workers = 2\nmax_workers = 4\n"
    path = write(tmp_path, f"[offers.it]\n{own}[offers.it.choose]\n{bounds}")
    assert chosen(path, offer="it", n_workers=9, max_workers=9).max_workers == 9
    found = refused(path, offer="it", n_workers=5)
    assert "allowed: 0 to 4" in str(found["argument n_workers"])
    fixed = "n_workers = 2\nmax_workers = 9\n[offers.it.choose]\nn_workers = { max = 9 }\n"
    path = write(tmp_path, f"[offers.it]\n{fixed}")
    assert chosen(path, offer="it", n_workers=9).max_workers == 9
    # The offer's bound is the first to refuse a number.
    found = refused(path, offer="it", n_workers=10)
    assert found["argument n_workers"].allowed == "at most 9"


def test_variables_and_dasks_configuration_are_choices_too(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)
    number = {"TERRADASK_CLUSTER__N_WORKERS": "7"}
    assert chosen(path, offer="small", variables=number).n_workers == 7
    assert chosen(path, offer="small", dask_config={"cluster": {"n-workers": 5}}).n_workers == 5
    by_variable = {"TERRADASK_CLUSTER__OFFER": "small", "TERRADASK_CLUSTER__WORKER_CPU": "64"}
    found = problems(path, environ=by_variable)
    assert "doesn't offer it" in str(found["TERRADASK_CLUSTER__WORKER_CPU"])
    config = {"offers": {"night-run": {"n-workers": 3, "choose": {"n-workers": {"max": 4}}}}}
    assert chosen(path, offer="night-run", dask_config=config, n_workers=4).max_workers == 4


def test_an_unknown_offer_names_the_nearest(tmp_path: Path) -> None:
    found = problems(write(tmp_path, OFFERS), overrides={"cluster": {"offer": "smal"}})
    assert found["argument offer"].allowed == "small, types"
    assert found["argument offer"].advice == "did you mean small?"
    none = problems(write(tmp_path, '[clusters.etl]\noffer = "small"\n'))
    (finding,) = none.values()
    assert "no offer: [offers.NAME] makes one" in str(finding)


def test_a_declared_cluster_has_the_offer_of_its_table(tmp_path: Path) -> None:
    path = write(tmp_path, f'{OFFERS}\n[clusters.etl]\noffer = "small"\nn_workers = 4\n')

    assert chosen(path, "etl").n_workers == 4
    assert chosen(path, "etl").max_workers == 8
    assert chosen(path, "etl", n_workers=5).n_workers == 5
    # Arguments for another cluster aren't this one's.
    assert chosen(path, "mine", worker_cpu=64).worker_cpu == 64
    assert chosen(path, "mine", offer="types").offer == "types"
    assert "argument worker_cpu" in refused(path, "etl", worker_cpu=64)
    assert "is declared" in str(refused(path, "etl", offer="types")["argument offer"])
    assert chosen(path, "etl", offer="small").n_workers == 4


def test_a_declared_cluster_beyond_its_offer_is_refused_at_loading(tmp_path: Path) -> None:
    path = write(tmp_path, f'{OFFERS}\n[clusters.etl]\noffer = "small"\nn_workers = 9\n')
    assert list(problems(path)) == [f"clusters.etl.n_workers in {path}"]


def test_the_offer_of_all_clusters_may_be_in_the_clusters_section(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS.replace("[cluster]", '[cluster]\noffer = "small"'))
    assert chosen(path).max_workers == 8
    assert "argument n_workers" in refused(path, n_workers=9)


# ---- every setting has a form of choice ----------------------------------------------------------


def test_every_number_has_bounds_and_nothing_else_does() -> None:
    bounded = {name for name in ClusterSettings.model_fields if _has_bounds(name)}
    assert bounded >= _RANGES | _SIZES
    assert bounded >= {
        *("max_workers", "worker_gpu", "worker_disk_size", "spot_fallback_seconds"),
        *("idle_timeout_seconds", "max_lifetime_seconds", "workers_per_host", "scheduler_port"),
    }
    assert not bounded & {
        *("arm", "spot_policy", "zone_name", "worker_vm_types", "tags", "wait_for_workers"),
        *("worker_groups", "software", "package_sync", "allow_ingress_from"),
    }


@pytest.mark.parametrize(
    ("choice", "text"),
    [
        (Choice("n_workers", 1, 8), "1 to 8"),
        (Choice("n_workers", None, 8), "at most 8"),
        (Choice("n_workers", 1), "at least 1"),
        (Choice("arm", values=(True, False)), "true, false"),
        (Choice("arm", is_any=True), "any value"),
    ],
)
def test_a_choice_as_text(choice: Choice, text: str) -> None:
    assert str(choice) == text


# ---- how they are shown, and what is deployed ----------------------------------------------------


def test_the_largest_cluster_is_at_the_bounds(tmp_path: Path) -> None:
    offers = find_offers(load_settings(write(tmp_path, OFFERS), environ={}).settings)
    assert list(offers) == ["small", "types"]
    assert offers["small"].largest == {
        "n_workers": 8,
        "worker_memory": "64 GiB",
        "spot_policy": "on-demand",
    }
    assert offers["small"].unbounded == ("arm", "idle_timeout_seconds")
    assert offers["types"].largest == {"worker_vm_types": ["g5.xlarge", "g6.xlarge"]}
    # They are within the offer.
    for name, offer in offers.items():
        assert chosen(tmp_path, offer=name, **offer.largest).offer == name


def test_a_notebook_shows_and_completes_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(write(tmp_path, OFFERS.replace("for a try", "for <b>")).parent)
    offers = terradask.offers()
    assert offers._ipython_key_completions_() == ["small", "types"]
    assert "small  A cluster for <b>  8            n_workers: 1 to 8; " in repr(offers)
    assert "A cluster for &lt;b&gt;</td>" in offers._repr_html_()
    with pytest.raises(InvalidInput, match="no such offer"):
        offers.named("tiny")
    with pytest.raises(InvalidInput, match=r"did you mean small\?"):
        offers.named("smal")
    assert repr(find_offers(Settings())) == "Offers()"


def test_ipython_completes_the_argument(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write(tmp_path, OFFERS).parent)
    shell = InteractiveShell()
    shell.extension_manager.load_extension("terradask")

    def completed(text: str) -> list[str]:
        with provisionalcompleter():
            found = shell.Completer.completions(text, len(text))
            return [one.text for one in found]

    assert sorted(completed('Cluster(n_workers=2, offer="')) == ["small", "types"]
    assert completed("Cluster(offer = 's") == ["small"]
    assert "small" not in completed('Cluster(name="s')
    # Settings that can't be used are for the call to report.
    write(tmp_path, "[offers.small]\nno_such = 1\n")
    assert "small" not in completed('Cluster(offer="')


def test_the_command_lists_shows_and_completes_them(tmp_path: Path) -> None:
    write(tmp_path, OFFERS)
    environ = {"HOME": str(tmp_path)}
    listed = in_this_process("offers", environ=environ, folder=tmp_path)
    assert listed.stdout.startswith("OFFER  DESCRIPTION          MAX WORKERS  TO CHOOSE\n")
    as_json = in_this_process("offers", "--json", environ=environ, folder=tmp_path)
    assert [one["name"] for one in json.loads(as_json.stdout)] == ["small", "types"]
    shown = in_this_process("offers", "small", environ=environ, folder=tmp_path)
    assert "worker_memory         16 GiB     8 GiB to 64 GiB" in shown.stdout
    assert "Cluster(offer='small')" in shown.stdout
    wrong = in_this_process("offers", "tiny", environ=environ, folder=tmp_path)
    assert (wrong.returncode, "allowed: small, types" in wrong.stderr) == (2, True)
    write(tmp_path, "")
    nothing = in_this_process("offers", environ=environ, folder=tmp_path)
    assert "no offers" in nothing.stderr


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["apply", "--offer", "small"], "needs the name of a cluster"),
        (["plan", "--offer", "small", "--out", "x"], "shown alone"),
        (["plan", "--offer", "small", "--changed-only"], "shown alone"),
    ],
)
def test_an_offer_without_a_cluster_is_planned_alone(words: list[str], says: str) -> None:
    done = in_this_process(*words)
    assert (done.returncode, says in done.stderr) == (2, True)


def test_a_job_has_the_offers_number_unless_one_is_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(terradask, "Cluster", dict)
    target = dict.fromkeys(["cluster", *_run_command._HARDWARE])

    def made(**given: Any) -> Any:
        return _run_command._cluster({**target, **given}, 4, None)

    assert made()["n_workers"] == 4
    offered = made(offer="small")
    assert (offered["offer"], "n_workers" in offered) == ("small", False)
    assert made(offer="small", n_workers=2)["n_workers"] == 2


def test_scaling_beyond_an_offer_names_it() -> None:
    found = descriptor()
    found = replace(found, settings={**found.settings, "offer": "it"})
    with pytest.raises(InvalidInput) as error:
        check_workers(found, 9, "workers")
    assert error.value.allowed == "0 to 8, its max_workers, by the offer 'it'"
    assert "`terradask offers`" in str(error.value.advice)


def test_arguments_for_a_deployed_cluster_are_within_its_offer(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, OFFERS), environ={}).settings
    deployed = ClusterSettings(offer="small", max_workers=8)
    check_offer(settings, deployed.model_copy(update={"n_workers": 8}), ["n_workers"])
    # It was made when the offer was another one.
    check_offer(settings, deployed, [])
    wrong = deployed.model_copy(update={"n_workers": 9, "no_client_timeout_seconds": 9.0})
    with pytest.raises(SettingsError) as error:
        check_offer(settings, wrong, ["n_workers", "no_client_timeout_seconds", "connect"])
    assert {one.where for one in error.value.findings} == {
        *("argument n_workers", "argument no_client_timeout_seconds"),
    }
    # An offer that isn't there any more, or none, allows what the cluster's groups do.
    check_offer(Settings(), wrong, ["n_workers"])
    check_offer(settings, ClusterSettings(n_workers=9), ["n_workers"])


def test_a_cluster_names_the_argument_as_it_was_typed(tmp_path: Path) -> None:
    path = write(tmp_path, OFFERS)
    # Without credentials: before any call to AWS.
    with pytest.raises(SettingsError) as error:
        Cluster(offer="types", idle_timeout="1 hour", settings=path)
    assert [one.where for one in error.value.findings] == ["argument idle_timeout"]
