"""Every time constant and limit of a host, in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from terradask_host.errors import ConfigInvalid

#: Overrides for tests and for the embedded AWS; not set on instances.
TIMING_VARIABLE = "TERRADASK_HOST_TIMING"


@dataclass(frozen=True)
class Timing:
    """Time constants in seconds, and counts. The defaults are what instances use."""

    #: Deadline of the metadata service, which may answer late while the instance boots.
    metadata_deadline_seconds: float = 60.0
    #: Deadline of ``run.json`` and the secret of this instance's run.
    run_deadline_seconds: float = 300.0
    #: After this a missing tag ``terradask:run:id`` counts as none.
    #: AWS (believed, imds-tags): The metadata service has an instance's tags within 10 seconds of
    #: its first boot.
    run_tag_grace_seconds: float = 10.0
    #: Interval at which a host completes its group's launch hook until AWS goes on.
    hook_retry_seconds: float = 5.0
    #: Deadline of the first read of the run's secrets. AWS (iam-eventual)
    secret_deadline_seconds: float = 60.0
    #: Processes that start within this time of each other get the same values of secrets.
    secret_fresh_seconds: float = 10.0
    #: Deadline of building the software environment.
    environment_deadline_seconds: float = 900.0
    #: Deadline of NVIDIA's driver, which loads while the machine boots.
    gpu_driver_seconds: float = 60.0
    #: A worker's host builds its own environment if the scheduler's host, whose scheduler listens,
    #: has reported none for this long.
    environment_share_seconds: float = 60.0
    #: A worker that never saw its scheduler leaves after this.
    scheduler_first_wait_seconds: float = 900.0
    #: A worker whose scheduler has gone leaves after this.
    scheduler_silent_seconds: float = 600.0
    #: Interval at which a worker without a scheduler probes the old one.
    scheduler_probe_seconds: float = 10.0
    #: Timeout of one such probe.
    probe_timeout_seconds: float = 5.0
    #: Deadline from "start" to the Dask process's report that it runs.
    dask_start_seconds: float = 300.0
    #: Crashes of the Dask process that are followed by a restart, in one run of the host program.
    dask_restarts: int = 3
    #: The first pause before such a restart; doubles each time.
    dask_restart_pause_seconds: float = 1.0
    #: Time for the scheduler's host to end a retired instance; then it leaves by itself.
    retired_grace_seconds: float = 30.0
    #: Time for moving data and closing, when the instance is being shut down. Less than the unit's
    #: TimeoutStopSec.
    leave_seconds: float = 90.0
    #: Interval of a spot instance's checks for the interruption notice.
    #: AWS (documented): AWS recommends to check for a Spot interruption notice every 5 seconds.
    #: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
    spot_poll_seconds: float = 5.0
    #: An interrupted host is gone this long before AWS ends it.
    spot_margin_seconds: float = 15.0
    #: The watchdog schedule: desired capacity 0, this far ahead ...
    watchdog_ahead_seconds: float = 1800.0
    #: ... and moved on this often.
    watchdog_move_seconds: float = 600.0
    #: A host without a worker at the scheduler for this long, at first or later, is ended;
    #: Karpenter's registration timeout.
    join_seconds: float = 900.0
    #: Hosts in a row that end without having joined, after which their group stops launching;
    #: ParallelCluster's protected mode.
    join_failures: int = 10
    #: Interval at which the scheduler's host compares its groups with the joined workers.
    join_poll_seconds: float = 60.0
    #: Interval at which the scheduler's host polls groups with several markets ...
    market_poll_seconds: float = 10.0
    #: ... and in the first minute in which instances are awaited.
    launch_poll_seconds: float = 2.0
    #: Age limit of the workspace's limits, and of what runs in it, while no host may be added.
    limits_seconds: float = 30.0
    #: Time for which a group with a failed launch gets no further requests.
    launch_failed_seconds: float = 180.0
    #: Time after which Spot without capacity is requested again, for hosts on demand.
    spot_again_seconds: float = 900.0
    #: Then workers of its name are refused.
    #: AWS (believed, asg-lists-members): Auto Scaling lists an instance no later than a minute
    #: after its first call from inside.
    member_patience_seconds: float = 60.0
    #: Shortest interval of calls for the cluster's instances while a worker waits to join.
    member_ask_seconds: float = 1.0
    #: Interval at which the scheduler checks whether its cluster is idle, or without a client.
    life_poll_seconds: float = 1.0
    #: Shortest wait of a scheduler for its first client.
    first_client_seconds: float = 120.0
    #: Time for the scheduler of an ended cluster to close, before its groups go to zero.
    scheduler_close_seconds: float = 20.0
    #: Time for a performance report, and again for storing it while a host leaves; with both, less
    #: than the time to close.
    performance_report_seconds: float = 8.0
    #: Time for the notice of the cluster's end.
    notice_seconds: float = 5.0
    #: Interval of CloudWatch's metrics; finer ones cost more.
    gauge_seconds: float = 60.0
    #: Interval at which the scheduler's process reports what workers use ...
    usage_seconds: float = 60.0
    #: ... and at which its host stores the sums.
    usage_kept_seconds: float = 300.0
    #: Time for the last of these while a host leaves.
    usage_wait_seconds: float = 4.0
    #: Log lines are shipped in batches at most this far apart.
    log_flush_seconds: float = 5.0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Timing:
        """Return the defaults, overridden by the JSON object in ``TERRADASK_HOST_TIMING``.

        Raises `ConfigInvalid` for invalid JSON, an unknown name, or a value that isn't a positive
        number.
        """
        text = environ.get(TIMING_VARIABLE)
        if not text:
            return cls()
        names = [field.name for field in fields(cls)]
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigInvalid(f"{TIMING_VARIABLE} is not valid JSON.", given=text) from error
        if not isinstance(values, dict):
            raise ConfigInvalid(f"{TIMING_VARIABLE} is not a JSON object.", given=text)
        for name, value in values.items():
            if name not in names:
                raise ConfigInvalid(
                    f"{TIMING_VARIABLE} names an unknown constant.",
                    given=name,
                    allowed=", ".join(names),
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigInvalid(
                    f"{TIMING_VARIABLE}: {name} is not a number.", given=value, allowed="0 or more"
                )
        return cls(**values)
