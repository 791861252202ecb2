"""The embedded AWS starts, stops and ends with its parent, and takes its hosts along."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.waiting import HANG_SECONDS, eventually

from terradask_simulator import (
    LeftRunning,
    PortTaken,
    Simulator,
    SimulatorError,
    lifecycle,
    process,
)
from terradask_simulator.errors import AlreadyStarted, NotStarted, SimulatorGone
from terradask_simulator.lifecycle import (
    environment_of,
    info_path,
    run,
    start_daemon,
    status,
    stop_daemon,
)

pytestmark = pytest.mark.simulator

ROOT = str(Path(__file__).parents[3])

#: Makes one group with one instance, and leaves it.
LEAVES_A_GROUP = """
import boto3
ec2, groups = boto3.client("ec2"), boto3.client("autoscaling")
template = ec2.create_launch_template(
    LaunchTemplateName="left",
    LaunchTemplateData={"ImageId": "ami-12c6146b", "InstanceType": "m7i.large"},
)["LaunchTemplate"]["LaunchTemplateId"]
groups.create_auto_scaling_group(
    AutoScalingGroupName="forgotten", MinSize=0, MaxSize=1, DesiredCapacity=1,
    AvailabilityZones=["us-east-1a"],
    LaunchTemplate={"LaunchTemplateId": template},
    Tags=[{"Key": "terradask:cluster", "Value": "etl", "PropagateAtLaunch": True}],
)
raise SystemExit(7)
"""


def wait_gone(pid: int) -> None:
    def gone() -> bool:
        with contextlib.suppress(psutil.NoSuchProcess):
            return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
        return True

    eventually(gone)


@pytest.fixture
def own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    yield tmp_path
    if status() is not None:
        stop_daemon()


def test_it_starts_quickly_and_leaves_nothing(bare_sim, fresh_daemons):
    with Simulator.start() as second:
        # Of a processor's time, which says the same on a busy machine.
        taken = psutil.Process(second.info.pid).cpu_times()
        assert taken.user + taken.system < 10
        assert second.vpc_cidr != bare_sim.vpc_cidr
        pid, folder = second.info.pid, second.state_dir
        client = second.client("s3")
        client.create_bucket(Bucket="only-here")
        client.close()
    wait_gone(pid)
    assert not folder.exists()
    client = bare_sim.client("s3")
    assert client.list_buckets()["Buckets"] == []
    client.close()
    assert second.stop() == []
    with pytest.raises(SimulatorGone):
        second.calls()


def test_a_chosen_port_is_used_and_a_taken_one_refused(bare_sim, tmp_path):
    with pytest.raises(PortTaken) as caught:
        Simulator.start(port=bare_sim.info.port, state_dir=tmp_path / "state")
    assert caught.value.port == bare_sim.info.port
    assert "choose another port" in str(caught.value)


def test_a_given_state_folder_is_kept(tmp_path):
    with Simulator.start(state_dir=tmp_path / "state", boot_hosts=False) as simulator:
        assert simulator.environ["TERRADASK_STATE_DIR"] == str(tmp_path / "state")
    assert (tmp_path / "state/daemon.log").exists()


def test_applied_changes_the_environment_for_a_while(bare_sim, monkeypatch):
    monkeypatch.setenv("AWS_PROFILE", "production")
    with bare_sim.applied():
        assert os.environ["AWS_ENDPOINT_URL"] == bare_sim.endpoint_url
        assert "AWS_PROFILE" not in os.environ
    assert os.environ["AWS_PROFILE"] == "production"
    assert "AWS_ENDPOINT_URL" not in os.environ


def test_the_daemon_ends_when_its_parent_is_killed(tmp_path):
    code = """
import sys, time
from terradask_simulator import Simulator
info = Simulator.start().info
print(info.pid, info.state_dir, flush=True)
time.sleep(600)
"""
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        number, folder = parent.stdout.readline().split()
        pid = int(number)
        reapers = [child.pid for child in psutil.Process(pid).children()]
        parent.kill()
    wait_gone(pid)
    assert len(reapers) == 1
    wait_gone(reapers[0])
    assert not Path(folder).exists()


def test_a_killed_daemon_takes_its_hosts_along(tmp_path):
    """The mark in the environment is what counts: any process that carries it belongs to a host."""
    with Simulator.start(state_dir=tmp_path) as simulator:
        root = tmp_path / "hosts/i-0123/root"
        root.mkdir(parents=True)
        environ = {**os.environ, "TERRADASK_HOST_ROOT": str(root)}
        with subprocess.Popen(
            [sys.executable, "-c", "import time; time.sleep(600)"], env=environ
        ) as host:
            os.kill(simulator.info.pid, signal.SIGKILL)
            assert host.wait(HANG_SECONDS) == -signal.SIGKILL
        wait_gone(simulator.info.pid)


def test_start_status_and_stop_from_any_process(own_cache):
    assert status() is None
    with pytest.raises(NotStarted, match="terradask sim start"):
        stop_daemon()
    info = start_daemon(baseline=False)
    assert status() == info
    assert json.loads(info_path().read_text())["endpoint_url"] == info.endpoint_url
    with pytest.raises(AlreadyStarted, match="terradask sim stop"):
        start_daemon(baseline=False)
    environ = {name: value for name, value in environment_of(info).items() if value is not None}
    code = "import boto3; boto3.client('s3').create_bucket(Bucket='from-outside')"
    subprocess.run([sys.executable, "-c", code], env={**os.environ, **environ}, check=True)
    code = "from terradask_simulator.lifecycle import stop_daemon; print(stop_daemon())"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
    wait_gone(info.pid)
    assert status() is None
    assert not Path(info.state_dir).exists()


def test_what_a_killed_simulator_left_behind_is_cleared_away(own_cache):
    info = start_daemon(baseline=False, boot_hosts=False)
    os.kill(info.pid, signal.SIGKILL)
    wait_gone(info.pid)
    assert status() is None
    assert not info_path().exists()
    assert not Path(info.state_dir).exists()
    # Another process has the number by now: the time of its creation gives it away.
    info_path().write_text(json.dumps({**info.as_dict(), "pid": os.getpid()}))
    assert status() is None


def test_a_start_that_fails_halfway_leaves_nothing(own_cache, monkeypatch):
    started = []
    launch = lifecycle.launch

    def noted(**options):
        started.append(launch(**options))
        return started[-1]

    monkeypatch.setattr(lifecycle, "launch", noted)
    info_path().mkdir(parents=True)
    with pytest.raises(IsADirectoryError):
        start_daemon(baseline=False, boot_hosts=False)
    ((info, _),) = started
    wait_gone(info.pid)
    assert not Path(info.state_dir).exists()


def test_an_interrupted_start_leaves_nothing(monkeypatch):
    started = []

    def interrupted(daemon):
        started.append(daemon)
        daemon.stdout.close()
        raise KeyboardInterrupt

    monkeypatch.setattr(process, "first_line", interrupted)
    with pytest.raises(KeyboardInterrupt):
        process.launch(boot_hosts=False, bound=False)
    wait_gone(started[0].pid)


def test_run_returns_the_commands_code_and_gives_it_the_environment():
    ready = []
    code = (
        "import boto3, sys; "
        "sys.exit(len(boto3.client('ec2').describe_availability_zones()['AvailabilityZones']))"
    )
    assert run([sys.executable, "-c", code], bare=True, on_ready=ready.append) == 6
    wait_gone(ready[0].pid)


def test_run_names_what_was_left_running():
    ready = []
    with pytest.raises(LeftRunning) as caught:
        run([sys.executable, "-c", LEAVES_A_GROUP], bare=True, on_ready=ready.append)
    assert caught.value.returncode == 7
    (left,) = caught.value.left
    assert left.startswith("group forgotten of cluster etl (desired 1")
    wait_gone(ready[0].pid)


def test_run_refuses_a_command_that_is_not_there():
    with pytest.raises(SimulatorError, match="can't be started"):
        run(["no-such-program"], bare=True)
    with pytest.raises(SimulatorError, match="No command"):
        run([], bare=True)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_run_passes_signals_on_and_waits_for_the_command(number, fork_servers):
    command = """
import signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT):
    signal.signal(number, lambda n, f: sys.exit(40 + n))
print("ready", flush=True)
time.sleep(600)
"""
    code = f"""
import sys
from types import SimpleNamespace
sys.path.insert(0, {ROOT!r})
from terradask_simulator import process
from terradask_simulator.lifecycle import run
from tests.forked_daemons import spawner
process.spawn = spawner(*(SimpleNamespace(address=each) for each in sys.argv[1:]))
sys.exit(run([sys.executable, "-c", {command!r}], bare=True))
"""
    addresses = [server.address for server in fork_servers]
    with subprocess.Popen(
        [sys.executable, "-c", code, *addresses],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as outer:
        assert outer.stdout is not None
        assert outer.stdout.readline() == "ready\n"
        outer.send_signal(number)
        assert outer.wait(HANG_SECONDS) == 40 + number
