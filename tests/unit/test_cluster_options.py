"""The signature of Cluster: every parameter there, none ignored."""

import dataclasses
import inspect
import pickle
import re
from pathlib import Path

import pytest

from terradask import Cluster, set_backend_options
from terradask._common.progress import silent
from terradask._dask import facade
from terradask._dask.arguments import UNSUPPORTED, ClusterArguments
from terradask._dask.decision import check_same_structure
from terradask._dask.provision import Provisioner
from terradask._dask.request import read_request
from terradask.errors import InvalidInput, SettingsError
from terradask_stacks.loading import load_settings
from terradask_stacks.settings import ClusterSettings
from terradask_stacks.topics import CLUSTER_TOPICS, by_topic

#: The signature in the documents that terradask was made from.
_SEED_SIGNATURE = """
name software container n_workers worker_class worker_options worker_vm_types worker_cpu
worker_memory worker_disk_size worker_disk_throughput worker_gpu worker_gpu_type scheduler_class
scheduler_options scheduler_vm_types scheduler_cpu scheduler_memory scheduler_disk_size
scheduler_gpu asynchronous cloud account shutdown_on_close idle_timeout use_scheduler_public_ip
use_dashboard_https credentials credentials_duration_seconds timeout environ tags send_dask_config
backend_options show_widget custom_widget configure_logging wait_for_workers package_sync
package_sync_strict package_sync_ignore package_sync_fail_on private_to_creator use_best_zone
compute_purchase_option spot_policy extra_worker_on_scheduler _n_worker_specs_per_host
local_modules scheduler_port allow_ingress_from allow_ssh jupyter region arm
"""

FIELDS = {field.name: field for field in dataclasses.fields(ClusterArguments)}


def test_every_parameter_of_the_seeds_is_there():
    assert set(_SEED_SIGNATURE.split()) <= set(inspect.signature(Cluster).parameters)


def test_every_parameter_is_built_or_refused():
    of_the_client = {
        "name",
        "asynchronous",
        "shutdown_on_close",
        "backend_options",
        "show_widget",
        "custom_widget",
        "region",
        "settings",
        "progress",
        "loop",
        "configure_logging",
        "silence_logs",
        "create",
        "attach",
        "compute_purchase_option",
        "_n_worker_specs_per_host",
        "credentials",
        "credentials_duration_seconds",
    }
    assert {name for name, field in FIELDS.items() if not field.metadata} == (
        of_the_client | UNSUPPORTED.keys()
    )
    assert {field.metadata["kind"] for field in FIELDS.values() if field.metadata} == {
        "structure",
        "run",
    }
    parameters = inspect.signature(Cluster.__init__).parameters
    assert {name: p.default for name, p in parameters.items() if name != "self"} == {
        name: f.default for name, f in FIELDS.items()
    }


def test_every_setting_is_one_of_a_cluster():
    settings = {
        field.metadata.get("setting", name)
        for name, field in FIELDS.items()
        if field.metadata.get("kind") in {"structure", "run"}
    }
    assert settings <= set(ClusterSettings.model_fields)


@pytest.mark.parametrize("option", sorted(UNSUPPORTED))
def test_what_is_not_built_is_refused_by_name_before_anything_is_made(option):
    with pytest.raises(InvalidInput) as caught:
        Cluster(**{option: "something"})
    problem = f"{option} is not supported by terradask"
    assert caught.value.problem == problem
    assert caught.value.advice
    again = pickle.loads(pickle.dumps(caught.value))
    assert (again.problem, again.given, str(again)) == (
        problem,
        caught.value.given,
        str(caught.value),
    )


def test_defaults_ask_for_nothing():
    ClusterArguments().refuse_unsupported()
    assert ClusterArguments().given("structure") == ClusterArguments().given("run") == {}


@pytest.mark.parametrize(
    ("option", "nearest"),
    [
        ("region", "region_name"),
        ("zone", "zone_name"),
        ("ingres", "ingress"),
        ("spot_replacement", None),
    ],
)
def test_unknown_backend_options_are_refused_with_the_nearest(option, nearest):
    with pytest.raises(InvalidInput, match=f"no backend option '{option}'") as caught:
        Cluster(backend_options={option: "x"})
    assert caught.value.advice == (f"did you mean {nearest}?" if nearest else "leave it out")
    assert "firewall" in caught.value.allowed


@pytest.mark.parametrize(
    "arguments",
    [
        {"region": "eu-west-1", "backend_options": {"region_name": "us-west-1"}},
        {"zone_name": "us-east-1a", "backend_options": {"zone_name": "us-east-1b"}},
        {
            "backend_options": {
                "firewall": {"ports": [8786], "cidr": "203.0.113.7/32"},
                "ingress": [],
            }
        },
    ],
)
def test_what_is_said_twice_has_to_be_the_same(arguments):
    with pytest.raises(InvalidInput, match=r"have different values|only one of them") as caught:
        Cluster(**arguments)
    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)


def test_a_lock_file_given_here_counts_from_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    request = read_request(ClusterArguments("etl", software_lock=Path("locks/uv.lock")))
    assert request.given["software_lock"] == str(tmp_path / "locks/uv.lock")
    for given in ("locks/uv.lock", Path("locks/uv.lock")):
        request = read_request(ClusterArguments("etl", software=given))
        assert request.given["software"] == str(tmp_path / "locks/uv.lock")
    assert read_request(ClusterArguments("etl", software="gpu")).given["software"] == "gpu"
    # No environment of a package's name takes its place.
    for one in ("pandas", "pandas>=2"):
        assert read_request(ClusterArguments("etl", software=one)).given["software"] == [one]


def test_packages_that_are_given_replace_the_settings_other_ways_to_name_some(tmp_path):
    path = tmp_path / "terradask.toml"
    for setting, given, expected in (
        ("software = ['pandas']", {"package_sync": True}, (True, [], None)),
        ("software_lock = 'uv.lock'", {"package_sync": ["s3fs"]}, (["s3fs"], [], None)),
        ("package_sync = true", {"software": ["s3fs"]}, (False, ["s3fs"], None)),
        ("software_lock = 'a.lock'", {"software": "/b/uv.lock"}, (False, "/b/uv.lock", None)),
        ("software = 'uv.lock'", {"package_sync": True}, (True, [], None)),
        ("package_sync = true", {"package_sync": False}, (False, [], None)),
        ("package_sync = true", {"n_workers": 1}, (True, [], None)),
    ):
        path.write_text(f"[cluster]\n{setting}\n")
        overrides = {"cluster": read_request(ClusterArguments("etl", **given)).given}
        found = load_settings(path, environ={}, overrides=overrides).settings.cluster
        assert (found.package_sync, found.software, found.software_lock) == expected
    both = read_request(ClusterArguments("etl", package_sync=True, software=["s3fs"])).given
    with pytest.raises(InvalidInput, match="both given"):
        load_settings(path, environ={}, overrides={"cluster": both})


def test_backend_options_are_settings():
    def where(**arguments):
        request = read_request(ClusterArguments(**arguments))
        return request.workspace, request.structure

    rule = {"ports": [22, 8787, 8786], "cidr": "203.0.113.0/24"}
    options = {"region_name": "us-west-1", "zone_name": "us-west-1b", "firewall": rule}
    expected = ({"region": "us-west-1"}, {"zone_name": "us-west-1b", "ingress": [rule]})
    assert where(backend_options=options, region="us-west-1") == expected
    assert where(backend_options={"ingress": [rule, rule], "zone_name": None}) == (
        {},
        {"ingress": [rule, rule]},
    )
    assert where(zone_name="us-west-1a") == ({}, {"zone_name": "us-west-1a"})
    for none in ("us-west-1", {"ingress": "203.0.113.0/24"}, {"firewall": [rule["cidr"]]}):
        with pytest.raises(InvalidInput):
            where(backend_options=none)


@pytest.mark.parametrize("name", ["Etl", "9lives", "a_b", "", "x" * 40, "network", "é"])
def test_names_that_aws_would_refuse(name):
    with pytest.raises(InvalidInput) as caught:
        Cluster(name=name)
    assert repr(name) in str(caught.value) or str(name) in str(caught.value)


def test_another_structure_than_deployed_is_refused_with_both():
    deployed = {"worker_vm_types": ["m6i.xlarge"], "scheduler_port": 8786}
    check_same_structure("etl", {"scheduler_port": 8786}, deployed)
    with pytest.raises(InvalidInput) as caught:
        check_same_structure("etl", {"worker_vm_types": ["c6i.large"]}, deployed)
    assert "c6i.large" in str(caught.value)
    assert "m6i.xlarge" in str(caught.value)
    assert "terradask destroy etl" in str(caught.value)


def test_a_class_is_named_by_the_path_that_hosts_import_it_by():
    import distributed

    def structure(worker_class):
        return dict(
            read_request(ClusterArguments(worker_class=worker_class, workers_per_host=2)).structure
        )

    assert structure(distributed.Nanny) == {
        "worker_class": "distributed.Nanny",
        "workers_per_host": 2,
    }
    assert (
        structure(distributed.utils.NoOpAwaitable)["worker_class"]
        == "distributed.utils.NoOpAwaitable"
    )

    class Local(distributed.Nanny):
        pass

    with pytest.raises(InvalidInput, match="can't import"):
        structure(Local)


def test_two_names_of_one_argument_are_one_setting():
    assert read_request(ClusterArguments(_n_worker_specs_per_host=2)).structure == {
        "workers_per_host": 2
    }
    assert read_request(ClusterArguments(compute_purchase_option="spot")).structure == {
        "spot_policy": "spot"
    }
    with pytest.raises(InvalidInput, match="an alias of `workers_per_host`"):
        Cluster(workers_per_host=1, _n_worker_specs_per_host=2)


def test_an_unknown_argument_is_the_clusters_own_and_the_nearest_is_named():
    with pytest.raises(TypeError) as caught:
        Cluster(name="etl", worker_cpus=4)
    assert str(caught.value) == (
        "Cluster() got an unexpected keyword argument 'worker_cpus'; did you mean 'worker_cpu'?"
    )


@pytest.mark.parametrize(
    ("name", "here"),
    [
        ("configuration", "terradask.toml as [clusters.NAME]"),
        ("workspace", "TERRADASK_WORKSPACE__NAME"),
        ("workers", "n_workers"),
        ("instance_type", "worker_vm_types"),
    ],
)
def test_an_argument_of_another_library_is_told_what_it_is_here(name, here):
    with pytest.raises(TypeError, match="unexpected keyword argument") as caught:
        Cluster(**{name: "x"})
    assert f"{name!r}; in terradask: " in str(caught.value)
    assert here in str(caught.value)


def test_no_name_of_another_library_hides_an_argument_or_names_a_missing_one():
    known = FIELDS.keys() | {"adapt", "minimum", "maximum"}
    for name, here in facade._EQUIVALENTS.items():
        assert name not in FIELDS
        named = set(re.findall(r"\b(?:worker|scheduler|n|max|zone|spot|package)_\w+", here))
        assert named <= known


@pytest.mark.parametrize("given", ["5 minutes", 300, 300.0])
def test_the_wait_is_a_duration(given):
    assert read_request(ClusterArguments(timeout=given)).given == {"create_timeout_seconds": 300.0}


@pytest.mark.parametrize("given", ["soon", False, -1])
def test_what_is_no_wait_is_refused_by_the_name_that_was_typed(given):
    with pytest.raises(InvalidInput, match="timeout is not a duration") as caught:
        read_request(ClusterArguments(timeout=given))
    assert "never" not in str(caught.value)


@pytest.mark.parametrize("given", [False, 0])
def test_without_patience_aws_is_asked_once(given):
    found = read_request(ClusterArguments(capacity_timeout=given)).given
    assert found == {"capacity_timeout_seconds": 0}
    assert ClusterSettings(capacity_timeout_seconds=given).capacity_timeout_seconds == 0


@pytest.mark.parametrize("given", ["soon", True, -1])
def test_what_is_no_patience_names_what_is(given):
    with pytest.raises(InvalidInput, match="capacity_timeout is not a duration") as caught:
        read_request(ClusterArguments(capacity_timeout=given))
    assert "False: AWS's first refusal is an error" in str(caught.value)


@pytest.mark.parametrize(
    ("arguments", "where"),
    [
        ({"compute_purchase_option": "x"}, "argument compute_purchase_option"),
        ({"spot_policy": "x"}, "argument spot_policy"),
        ({"_n_worker_specs_per_host": 0}, "argument _n_worker_specs_per_host"),
        ({"max_lifetime": "900 days"}, "argument max_lifetime"),
    ],
)
def test_a_setting_that_is_refused_is_named_as_it_was_typed(arguments, where, tmp_path):
    (tmp_path / "terradask.toml").write_text("")
    with pytest.raises(SettingsError) as caught:
        Provisioner(read_request(ClusterArguments(settings=tmp_path, **arguments)), silent).run()
    assert [each.where for each in caught.value.findings] == [where]


@pytest.mark.parametrize("given", [object(), "yes", 1])
def test_a_widget_that_can_not_draw_is_refused_before_anything_is_made(given):
    with pytest.raises(InvalidInput, match="it has no method `update`"):
        Cluster("etl", custom_widget=given)


def test_options_without_their_names_are_refused_in_a_line(tmp_path):
    with pytest.raises(InvalidInput, match="Backend options must be given by name") as caught:
        set_backend_options("my-account", "aws")
    assert caught.value.given == "'my-account', 'aws'"


def test_tuples_are_taken_where_lists_are(tmp_path):
    (tmp_path / "terradask.toml").write_text("")
    groups = {"large": {"vm_types": ("m6i.large", "m5.large"), "n_workers": 1}}
    asked = read_request(
        ClusterArguments(
            worker_cpu=(2, 8),
            worker_memory=("8 GiB", "16 GiB"),
            scheduler_vm_types=("m6i.large",),
            worker_groups=groups,
            software=("dask", "s3fs"),
            n_workers=(2, 8),
        )
    )
    sections = {"cluster": asked.given}
    cluster = load_settings(tmp_path, environ={}, overrides=sections).settings.cluster
    assert (cluster.worker_cpu, cluster.worker_memory) == ([2, 8], ["8 GiB", "16 GiB"])
    assert (cluster.scheduler_vm_types, cluster.software) == (["m6i.large"], ["dask", "s3fs"])
    assert cluster.worker_groups["large"].vm_types == ["m6i.large", "m5.large"]
    assert asked.given["n_workers"] == [2, 8]


@pytest.mark.parametrize("method", [Cluster.adapt, Cluster.get_logs, Cluster.wait_for_workers])
def test_what_a_method_does_not_take_is_named(method):
    with pytest.raises(TypeError, match=r"^got an unexpected keyword argument 'sheduler'$"):
        method(None, sheduler=True)


def test_signature_and_docstring_have_the_topics_in_one_order():
    topics = by_topic(FIELDS)
    in_order = [name for names in topics.values() for name in names]
    assert [name for name in FIELDS if name != "_"] == in_order
    text = inspect.cleandoc(Cluster.__doc__).partition("Parameters\n")[2].partition("Raises\n")[0]
    headings = re.findall(r"^\*\*(.+)\*\*$", text, flags=re.MULTILINE)
    assert headings == list(topics)
    for heading, names in topics.items():
        part = text.partition(f"**{heading}**")[2].partition("\n**")[0]
        shown = re.findall(r"^([a-z_].*)$", part, flags=re.MULTILINE)
        assert sorted(name for line in shown for name in line.split(", ")) == sorted(names)


def test_every_argument_and_setting_has_one_topic():
    listed = [name for names in CLUSTER_TOPICS.values() for name in names]
    assert sorted(listed) == sorted((FIELDS.keys() | ClusterSettings.model_fields.keys()) - {"_"})
