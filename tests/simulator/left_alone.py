"""A client that leaves its cluster alone with its work, and what AWS then says of it."""

from __future__ import annotations

import signal
import subprocess
import sys

from ..waiting import PROCESS_SECONDS
from .left_jobs import JOB_RETRIES, JOB_TASKS

LEAVING = """
import os, signal, sys, time
from distributed import fire_and_forget
from terradask import Cluster

def _slow():
    def slow(number):
        time.sleep(0.3)
        return number, os.urandom(16)
    return slow

name, most, tasks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
cluster = Cluster.from_name(name)
print(len(cluster.observed), flush=True)
client = cluster.get_client()
cluster.adapt(minimum=1, maximum=most, interval="100 ms", target_duration="500 ms", wait_count=10)
futures = client.map(_slow(), range(tasks), pure=False)
if "keep" in sys.argv:
    client.publish_dataset(kept=futures)
else:
    fire_and_forget(futures)
    # It is on its way until the scheduler has it.
    while client.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)) < tasks:
        time.sleep(0.05)
os.kill(os.getpid(), signal.SIGKILL)
"""


#: Tasks of a wave. Every other one is published, and the rest are fire_and_forget's.
WAVE_TASKS = 20

LEAVING_WAVES = """
import os, signal, sys, time
from pathlib import Path
from distributed import Reschedule, fire_and_forget
from terradask import Cluster

name, folder, line = sys.argv[1:4]
most, first, waves, tasks, job_tasks, job_retries = map(int, sys.argv[4:])

def gate(wave, *before):
    until = time.monotonic() + 0.5
    while not Path(folder, f"begin-{wave}").exists():
        if time.monotonic() > until:
            # A host that is to leave when its tasks are done must not wait for it.
            raise Reschedule
        time.sleep(0.05)

def numbered(number, opened):
    time.sleep(0.2)
    token = os.urandom(16).hex()
    Path(folder, f"{number}.{token}").touch()
    return number, number * number, token

def forgotten(dask_scheduler):
    return len(dask_scheduler.clients["fire-and-forget"].wants_what)

cluster = Cluster.from_name(name)
client = cluster.get_client()
cluster.adapt(minimum=1, maximum=most, interval="100 ms", target_duration="500 ms", wait_count=10)
opened = None
for wave in range(first, first + waves):
    opened = client.submit(gate, wave, opened, key=f"gate-{wave}")
    futures = [
        client.submit(numbered, number, opened, key=f"numbered-{number}")
        for number in range(wave * tasks, (wave + 1) * tasks)
    ]
    client.publish_dataset(futures[::2], name=f"wave-{wave}")
    fire_and_forget(futures[1::2])
# They are on their way until the scheduler has them.
while client.run_on_scheduler(forgotten) < waves * len(futures[1::2]):
    time.sleep(0.05)
inputs = [str(number) for number in range(job_tasks)]
job = cluster.map_commands(["sh", "-c", line], inputs, retries=job_retries)
print(job.id, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def leave(*arguments):
    """Run a client that lets a cluster adapt, gives it work, and kills itself."""
    assert _killed(LEAVING, *arguments) == "1\n"


def leave_waves(cluster, folder, line, most, first, waves):
    """Run a client that lets a cluster adapt, gives it waves of work that each wait for a file and
    a job whose tasks are a shell's line, and kills itself. Return the job's id.
    """
    numbers = (most, first, waves, WAVE_TASKS, JOB_TASKS, JOB_RETRIES)
    return _killed(LEAVING_WAVES, cluster, folder, line, *numbers).strip()


def _killed(code, *arguments):
    killed = subprocess.run(
        [sys.executable, "-c", code, *map(str, arguments)],
        check=False,
        capture_output=True,
        text=True,
        timeout=PROCESS_SECONDS,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    return killed.stdout


def running(sim, cluster):
    """Return the ids of a cluster's instances that run."""
    mine = {"Name": "tag:terradask:cluster", "Values": [cluster]}
    on = {"Name": "instance-state-name", "Values": ["pending", "running"]}
    client = sim.client("ec2")
    pages = client.describe_instances(Filters=[mine, on])["Reservations"]
    client.close()
    return [one["InstanceId"] for page in pages for one in page["Instances"]]


def numbers(sim, cluster):
    """Return how many hosts the group of workers is to have and has, as AWS says."""
    client = sim.client("autoscaling")
    (group,) = client.describe_auto_scaling_groups(
        AutoScalingGroupNames=[f"terradask-default-{cluster}-workers"]
    )["AutoScalingGroups"]
    client.close()
    return group["DesiredCapacity"], len(group["Instances"])
