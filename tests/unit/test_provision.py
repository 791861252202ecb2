"""Client and cluster of different versions are an error that lists both."""

import dataclasses
import importlib.metadata
import threading
from types import SimpleNamespace

import pytest

from terradask._clusters.attach import Attachment
from terradask._common.progress import silent
from terradask._dask import ignored as of_ignored
from terradask._dask.connectivity import check_route
from terradask._dask.ignored import warn_of_ignored, warn_without_hashes
from terradask._dask.launch import Launch, check_versions
from terradask._dask.provision import Provisioner, wait_for_deployment
from terradask._dask.request import Request, parse_name
from terradask._dask.rollback import Made
from terradask._observe.documents import Descriptor, read_descriptor, read_run
from terradask._observe.keys import Bundle, KeySet
from terradask._software.hosts import python_version
from terradask._software.sync import PackageSync
from terradask.errors import (
    DocumentFormat,
    InvalidInput,
    NoCapacity,
    SoftwareUnusable,
    StalePlan,
    StateLocked,
    TerraformError,
    VersionMismatch,
)
from terradask_host.documents import LifetimePolicy, Run, SchedulerAddress
from terradask_stacks.settings import ClusterSettings, IngressRule, Settings

from ..waiting import HANG_SECONDS

HERE = {name: importlib.metadata.version(name) for name in ("dask", "distributed")}


#: Of a cluster whose hosts run an image.
NO_PACKAGES = SimpleNamespace(lock={"container": "image"})


def attachment(python, packages):
    descriptor = Descriptor(
        "default", "etl", "us-east-1", "bucket", "us-east-1a", {}, 9, "secret", {}, {}
    )
    scheduler = SchedulerAddress(
        "r1", "i-1", 1, "tls://10.0.0.1:8786", None, 8787, python, packages
    )
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", python, packages, 2)
    keys = KeySet("r1", "ca", *(Bundle("cert", "key") for _ in range(3)))
    return Attachment(descriptor, run, scheduler, keys)


def starter(start):
    return SimpleNamespace(begin=lambda settings: None, start=start)


def launch_of(deployment, settings, root=None):
    workspace = SimpleNamespace(root=root, settings=Settings())
    return Launch(
        *(Request("etl"), settings, Made(workspace, deployment), silent),
        on_status=lambda deployment, status: None,
        cancelled=threading.Event(),
    )


def test_several_cancellations_are_one_request_to_terraform():
    """Another one would kill it. One that came before it ran is made again."""
    runs, asked = iter((False, True)), []

    def cancel():
        asked.append("stop")
        return next(runs)

    provisioner = Provisioner(Request("etl"), silent)
    provisioner._made = Made(SimpleNamespace(cancel=cancel), SimpleNamespace(name="etl"))
    for _ in range(3):
        provisioner.cancel()
    assert asked == ["stop", "stop"]


def test_the_same_versions_are_fine():
    check_versions("etl", attachment(python_version(), HERE))
    check_versions("etl", attachment(f"{python_version()}.99", HERE))


@pytest.mark.parametrize(
    ("python", "packages", "named"),
    [
        ("3.9", HERE, "python: here"),
        (python_version(), {**HERE, "distributed": "2024.1.0"}, "cluster 2024.1.0"),
        (python_version(), {"dask": HERE["dask"]}, "cluster none"),
    ],
)
def test_another_version_is_refused_with_both(python, packages, named):
    with pytest.raises(VersionMismatch) as caught:
        check_versions("etl", attachment(python, packages))
    assert named in str(caught.value)
    assert caught.value.client["python"] == python_version()


def test_no_public_address_says_what_to_do():
    with pytest.raises(InvalidInput, match="connect='private'"):
        attachment("3.11", HERE).address(public=True)
    assert attachment("3.11", HERE).address(public=False) == "tls://10.0.0.1:8786"


def test_documents_of_another_format_are_refused():
    with pytest.raises(DocumentFormat, match="terradask apply etl"):
        read_descriptor({"format": 2, "cluster": "etl", "terradask_version": "9.0"})
    with pytest.raises(DocumentFormat):
        read_run({"format": 0})


def test_names_are_made_up_and_differ():
    assert parse_name(None) != parse_name(None)
    assert parse_name("etl") == "etl"


def test_a_run_that_somebody_else_started_meanwhile_is_not_ours_to_stop():
    deployment = SimpleNamespace(
        name="etl",
        started_run_id=None,
        descriptor=NO_PACKAGES,
        current_run=lambda: None,
        _starter=starter(lambda change, **_: SimpleNamespace(run_id="theirs")),
    )
    settings = ClusterSettings(use_scheduler_public_ip=False)
    launch = launch_of(deployment, settings)
    launch.start()
    assert launch.made.origin == "attached"
    deployment.started_run_id = "theirs"
    launch.start()
    assert launch.made.origin == "started"


@pytest.mark.parametrize(
    ("structure", "run", "ignored"),
    [
        ({}, {}, None),
        ({"worker_groups": {"gpu": {"gpu": 1}}}, {"n_workers": 2, "environ": {"A": "1"}}, None),
        ({}, {"n_workers": 3}, "n_workers"),
        (
            {"worker_groups": {"gpu": {"n_workers": 1}}},
            {"environ": {"A": "2"}},
            "environ and worker_groups['gpu']['n_workers']",
        ),
        # A pair also asks for adapting.
        ({}, {"n_workers": [2, 20]}, "n_workers"),
        ({}, {"idle_timeout_seconds": 1200.0, "max_lifetime_seconds": 86_400.0}, "max_lifetime"),
        (
            {},
            {"idle_timeout_seconds": False, "no_client_timeout_seconds": 60.0},
            "idle_timeout and no_client_timeout",
        ),
        ({}, {"send_dask_config": True}, None),
        ({}, {"send_dask_config": False}, "send_dask_config"),
        ({}, {"software": ["xgboost"], "package_sync": False}, "software"),
        (
            {},
            {"package_sync": True, "package_sync_strict": True, "local_modules": True},
            "package_sync and package_sync_strict and local_modules",
        ),
        # This client's own.
        ({}, {"connect": "private", "wait_for_workers": 3, "create_timeout_seconds": 9.0}, None),
        ({}, {"capacity_timeout_seconds": 9.0}, None),
    ],
)
def test_what_only_a_start_heeds_is_told_when_the_cluster_runs(structure, run, ignored, caplog):
    running = Run(
        *("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2, {"A": "1", "B": "2"}),
        dask_config={"distributed": {}},
        life=LifetimePolicy(),
    )
    given = {**structure, **run}
    warn_of_ignored(Request("etl", given), ClusterSettings(**given), running)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == (ignored is not None)
    for text in told:
        applies = "apply" if " and " in ignored else "applies"
        start = f"cluster etl is already running: {ignored} {applies} only at its start; "
        assert text.startswith(start)
        assert text.endswith("to start it again: terradask stop etl")
        assert ("cluster.scale" in text) is ("n_workers" in ignored)
        assert ("cluster.set_keepalive" in text) is ("no_client_timeout" in ignored)


def test_what_a_run_records_under_an_arguments_name_is_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(of_ignored, "RUN_SETTINGS", frozenset({"spot_fallback_seconds"}))
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2, spot_fallback_seconds=60)
    for seconds, told in ((60, []), (90, ["spot_fallback_seconds"])):
        request = Request("etl", {"spot_fallback_seconds": seconds})
        asked = ClusterSettings(spot_fallback_seconds=seconds)
        assert of_ignored.ignored_arguments(request, asked, run) == told


def test_what_a_running_cluster_takes_is_the_clients_own() -> None:
    recorded = {field.name for field in dataclasses.fields(Run)}
    assert of_ignored.RUN_SETTINGS - of_ignored._MATCHERS.keys() - recorded == {
        *("connect", "use_scheduler_public_ip", "create_timeout_seconds", "wait_for_workers"),
        "capacity_timeout_seconds",
        # It has a warning of its own.
        "software_lock",
    }


@pytest.mark.parametrize(
    ("software_lock", "hashed", "warned"),
    [(None, False, False), ("uv.lock", True, False), ("uv.lock", False, True)],
)
def test_hosts_without_hashes_are_told_to_whom_asked_for_them(
    software_lock, hashed, warned, caplog
):
    run = Run("r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2, hashed=hashed)
    warn_without_hashes("etl", run, ClusterSettings(software_lock=software_lock))
    assert ("started without software_lock" in caplog.text) is warned


def test_a_lock_file_that_is_not_there_is_refused_before_anything_is_planned(tmp_path):
    workspace = SimpleNamespace(
        root=tmp_path,
        settings=Settings(cluster=ClusterSettings(software_lock="uv.lock")),
        plan_launch=None,
    )
    provisioner = Provisioner(Request("etl"), silent)
    made = Made(workspace, SimpleNamespace(name="etl"))
    with pytest.raises(SoftwareUnusable, match="The lock file of `software_lock`") as refused:
        provisioner._deploy(made, wait_seconds=0)
    assert refused.value.given == str(tmp_path / "uv.lock")
    assert made.origin == "attached"


def test_a_start_takes_the_lock_file_of_the_settings_in_force(tmp_path):
    started = []
    deployment = SimpleNamespace(
        name="etl",
        started_run_id="r1",
        descriptor=NO_PACKAGES,
        _starter=starter(
            lambda change, **_: started.append(change(None)) or SimpleNamespace(run_id="r1")
        ),
    )
    settings = ClusterSettings(use_scheduler_public_ip=False, software_lock="uv.lock")
    launch_of(deployment, settings, tmp_path).start()
    assert started[0].software_lock == "uv.lock"
    settings = ClusterSettings(use_scheduler_public_ip=False, software="uv.lock")
    launch_of(deployment, settings, tmp_path).start()
    assert started[1].software == "uv.lock"


def test_a_start_takes_the_callers_environment_as_the_settings_in_force_say(tmp_path):
    started = []
    deployment = SimpleNamespace(
        name="etl",
        started_run_id="r1",
        descriptor=NO_PACKAGES,
        _starter=starter(
            lambda change, **_: started.append(change(None)) or SimpleNamespace(run_id="r1")
        ),
    )
    deployed = ClusterSettings(
        use_scheduler_public_ip=False, package_sync=["Pandas"], package_sync_strict=True
    )
    launch_of(deployment, deployed, tmp_path).start()
    assert PackageSync.of(started[0]) == PackageSync(["Pandas"], strict=True)


def test_what_a_start_would_refuse_is_refused_before_anything_is_made(tmp_path):
    workspace = SimpleNamespace(
        root=tmp_path,
        settings=Settings(cluster=ClusterSettings(package_sync=["no-such-package"])),
        plan_launch=None,
    )
    with pytest.raises(SoftwareUnusable, match="no-such-package"):
        Provisioner(Request("etl"), silent)._deploy(
            Made(workspace, SimpleNamespace(name="etl")), wait_seconds=0
        )


def test_what_a_start_would_refuse_leaves_a_deployed_cluster_as_it_is(tmp_path):
    deployment = SimpleNamespace(
        name="etl",
        descriptor=SimpleNamespace(lock={}, architecture="x86_64"),
        _starter=starter(None),
    )
    settings = ClusterSettings(package_sync=["no-such-package"], use_scheduler_public_ip=False)
    launch = launch_of(deployment, settings, tmp_path)
    with pytest.raises(SoftwareUnusable, match="no-such-package"):
        launch.start()
    assert launch.made.origin == "attached"


def test_a_start_in_another_zone_repeats_no_warning(caplog):
    zones = ["us-east-1a", "us-east-1b"]
    attached = attachment(python_version(), HERE)
    refusal = NoCapacity("no machines", kinds={"capacity"})

    def attach(zone):
        if zone == zones[0]:
            raise refusal
        return attached

    def deployed(zone):
        return SimpleNamespace(
            name="etl",
            descriptor=SimpleNamespace(zone=zone),
            _starter=starter(lambda change, **_: attached.run),
            attach=lambda **_: attach(zone),
            stop=lambda: None,
        )

    settings = ClusterSettings(use_scheduler_public_ip=False, software_lock="uv.lock")
    launch = launch_of(deployed(zones[0]), settings)
    launch.made.origin = "created"
    vars(launch.made.workspace).update(
        settings=Settings(cluster=settings),
        baseline=lambda: SimpleNamespace(zones=zones),
        plan_launch=lambda name, refresh: "plan",
        apply=lambda plan: None,
        deployment=lambda name: deployed(zones[1]),
    )
    assert launch.run() is attached
    assert launch.made.deployment.descriptor.zone == zones[1]
    assert caplog.text.count("started without software_lock") == 1


def test_a_run_of_an_older_terradask_has_no_hashes():
    document = Run(
        "r1", "2026-11-20T05:15:00Z", "arn", "v1", "3.11", {}, 2, hashed=True
    ).to_document()
    assert read_run(document).hashed
    del document["hashed"]
    assert not read_run(document).hashed


@pytest.mark.parametrize(
    ("error", "origin"),
    [(StateLocked, "attached"), (StalePlan, "attached"), (TerraformError, "created")],
)
def test_a_cluster_that_somebody_else_is_making_is_not_ours_to_destroy(error, origin):
    def apply(_plan):
        raise error("refused")

    settings = Settings(cluster=ClusterSettings(use_scheduler_public_ip=False, package_sync=False))
    workspace = SimpleNamespace(
        root=None, settings=settings, plan_launch=lambda name: None, apply=apply
    )
    nothing = SimpleNamespace(
        name="etl", exists=False, objects=SimpleNamespace(names=lambda under: [])
    )
    made = Made(workspace, nothing)
    with pytest.raises(error):
        Provisioner(Request("etl"), silent)._deploy(made, wait_seconds=0)
    assert made.origin == origin


class DeployedMeanwhile:
    """A deployment that somebody else makes after a few looks, and starts after a few more."""

    name = "etl"

    def __init__(self, *, reads):
        self.reads = reads
        self.objects = SimpleNamespace(names=lambda under: [under])

    @property
    def exists(self):
        self.reads -= 1
        return self.reads < 0

    def current_run(self):
        return "theirs" if self.reads < 0 else None


@pytest.mark.parametrize("reads", [0, 3])
def test_a_cluster_that_somebody_else_has_made_meanwhile_is_used(reads):
    applied = []

    def apply(plan):
        applied.append(plan)
        raise StalePlan("the state has changed")

    settings = Settings(cluster=ClusterSettings(use_scheduler_public_ip=False, package_sync=False))
    workspace = SimpleNamespace(
        root=None, settings=settings, plan_launch=lambda name: "plan", apply=apply
    )
    provisioner = Provisioner(Request("etl"), silent, poll_seconds=0.001)
    made = Made(workspace, DeployedMeanwhile(reads=reads))
    assert provisioner._deploy(made, wait_seconds=HANG_SECONDS) is False
    assert made.origin == "attached"
    assert applied == ([] if reads == 0 else ["plan"])


def test_nobody_waits_long_where_nobody_is_at_it():
    nothing = SimpleNamespace(exists=False, objects=SimpleNamespace(names=lambda under: []))
    assert not wait_for_deployment(
        nothing,
        seconds=3600,
        check_cancelled=lambda: None,
        between_seconds=0.01,
        poll_seconds=0.001,
    )


RULE = {"cidr": "203.0.113.7/32"}


def a_workspace(**baseline):
    deployed = SimpleNamespace(
        **{"isolation": "workspace", "ingress": [], "session_manager": False, **baseline}
    )
    return SimpleNamespace(baseline=lambda: deployed)


@pytest.mark.parametrize(
    ("isolation", "network", "own", "closed"),
    [
        ("workspace", [RULE], None, None),
        ("workspace", [], None, "network"),
        # Rules of a cluster's own open nothing where all share the network's.
        ("workspace", [], [RULE], "network"),
        ("cluster", [RULE], None, None),
        ("cluster", [], None, "network"),
        ("cluster", [], [RULE], None),
        ("cluster", [RULE], [], "cluster"),
    ],
)
def test_a_cluster_that_nobody_could_reach_is_refused(isolation, network, own, closed):
    workspace = a_workspace(isolation=isolation, ingress=[IngressRule(**rule) for rule in network])
    settings = ClusterSettings(ingress=own)
    if closed is None:
        check_route(workspace, settings)
        return
    with pytest.raises(
        InvalidInput, match=f"the {closed} allows no address at port 8786"
    ) as caught:
        check_route(workspace, settings)
    # Where clusters share their firewall, no cluster can let anybody in.
    assert ("allow_ingress_from='me'" in str(caught.value)) is (isolation == "cluster")
    check_route(workspace, settings.model_copy(update={"connect": "private"}))


def test_a_rule_for_another_port_lets_nobody_in():
    workspace = a_workspace(ingress=[IngressRule(**RULE)])
    check_route(workspace, ClusterSettings())
    with pytest.raises(InvalidInput, match=r"at port 9000(?s:.*)ports = \[9000, 8787\] and cidr"):
        check_route(workspace, ClusterSettings(scheduler_port=9000))
    isolated = a_workspace(isolation="cluster", session_manager=True)
    check_route(
        isolated,
        ClusterSettings(scheduler_port=9000, allow_ingress_from="203.0.113.7"),
    )
    with pytest.raises(InvalidInput, match="connect='ssm'"):
        check_route(isolated, ClusterSettings(allow_ingress_from=[]))
