"""Every time constant and limit of a host, in one place."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields

from terradask_host.errors import ConfigInvalid

#: Overrides for tests and for the embedded AWS; on an instance it is not set.
TIMING_VARIABLE = "TERRADASK_HOST_TIMING"


@dataclass(frozen=True)
class Timing:
    """Time constants in seconds, and counts. The defaults are what instances use."""

    #: The metadata service may answer late while the instance boots.
    metadata_deadline_seconds: float = 60.0
    #: ``run.json`` and the secret of this instance's run must be there by then.
    run_deadline_seconds: float = 300.0
    #: The tag ``terradask:run:id`` may lag behind the instance; after this a missing tag counts as
    #: none.
    run_tag_grace_seconds: float = 10.0
    #: Building the software environment.
    environment_deadline_seconds: float = 900.0
    #: NVIDIA's driver, which loads while the machine boots, shows all GPUs by then.
    gpu_driver_seconds: float = 60.0
    #: A worker's host builds its own environment if the scheduler's host has said nothing of one
    #: for so long, though its scheduler listens.
    environment_share_seconds: float = 60.0
    #: A worker that never saw its scheduler leaves after this.
    scheduler_first_wait_seconds: float = 900.0
    #: A worker whose scheduler has gone leaves after this.
    scheduler_silent_seconds: float = 600.0
    #: How often a worker without a scheduler asks whether the old one answers again.
    scheduler_probe_seconds: float = 10.0
    #: How long one such question may take.
    probe_timeout_seconds: float = 5.0
    #: From "start" to the report of the Dask process that it runs.
    dask_start_seconds: float = 300.0
    #: Crashes of the Dask process that are answered with a restart, in one life of the host
    #: program.
    dask_restarts: int = 3
    #: The first pause before such a restart; doubles each time.
    dask_restart_pause_seconds: float = 1.0
    #: The scheduler's host is expected to end a retired instance within this; then it leaves
    #: by itself.
    retired_grace_seconds: float = 30.0
    #: Moving data off and closing, when the instance is being shut down. Less than the unit's
    #: TimeoutStopSec.
    leave_seconds: float = 90.0
    #: How often a spot instance looks for AWS's notice that it takes it back; what AWS recommends:
    #: https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/spot-instance-termination-notices.html
    spot_poll_seconds: float = 5.0
    #: A host that is taken back is gone so long before AWS ends it.
    spot_margin_seconds: float = 15.0
    #: The watchdog schedule: desired capacity 0, this far ahead ...
    watchdog_ahead_seconds: float = 1800.0
    #: ... and moved on this often.
    watchdog_move_seconds: float = 600.0
    #: A host that has had no worker at the scheduler for so long, at first or later, is ended;
    #: Karpenter's registration timeout.
    join_seconds: float = 900.0
    #: Hosts in a row that end without having joined, after which their group launches no more;
    #: ParallelCluster's protected mode.
    join_failures: int = 10
    #: How often the scheduler's host compares its groups with the workers that have joined.
    join_poll_seconds: float = 60.0
    #: How often the scheduler's host looks at groups that have several markets ...
    market_poll_seconds: float = 10.0
    #: ... and in the first minute in which instances are awaited.
    launch_poll_seconds: float = 2.0
    #: For so long a group in which a launch failed is asked for no more.
    launch_failed_seconds: float = 180.0
    #: Spot that had no capacity is asked again after this, for hosts that run on demand.
    spot_again_seconds: float = 900.0
    #: For so long AWS may leave an instance out of what it shows; a worker of a name that it
    #: doesn't show is refused after that.
    member_patience_seconds: float = 60.0
    #: How often AWS is asked which instances the cluster has, at most, while a worker waits to
    #: join.
    member_ask_seconds: float = 1.0
    #: How often the scheduler looks whether its cluster is idle, or without a client.
    life_poll_seconds: float = 1.0
    #: For so long, at least, a scheduler waits for its first client.
    first_client_seconds: float = 120.0
    #: How long a scheduler whose cluster is over may take to close, before its groups go to zero.
    scheduler_close_seconds: float = 20.0
    #: How long a performance report may take, and another such time to get into the bucket while
    #: a host leaves; with both, less than the time to close.
    performance_report_seconds: float = 8.0
    #: How long a host whose cluster is at zero waits for the topic that it tells of the end.
    notice_seconds: float = 5.0
    #: How often gauges become metrics of CloudWatch, whose finest are of a minute without more to
    #: pay.
    gauge_seconds: float = 60.0
    #: Log lines are shipped in batches at most this far apart.
    log_flush_seconds: float = 5.0

    @classmethod
    def from_environ(cls, environ: Mapping[str, str]) -> Timing:
        """Return the defaults, overridden by the JSON object in ``TERRADASK_HOST_TIMING``.

        Raises
        ------
        ConfigInvalid
            When the variable holds no JSON object, an unknown name, or a value that is no positive
            number.
        """
        text = environ.get(TIMING_VARIABLE)
        if not text:
            return cls()
        names = [field.name for field in fields(cls)]
        try:
            values = json.loads(text)
        except ValueError as error:
            raise ConfigInvalid(f"{TIMING_VARIABLE} is no JSON.", given=text) from error
        if not isinstance(values, dict):
            raise ConfigInvalid(f"{TIMING_VARIABLE} is no JSON object.", given=text)
        for name, value in values.items():
            if name not in names:
                raise ConfigInvalid(
                    f"{TIMING_VARIABLE} names an unknown constant.",
                    given=name,
                    allowed=", ".join(names),
                )
            if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
                raise ConfigInvalid(
                    f"{TIMING_VARIABLE}: {name} is no number.", given=value, allowed="0 or more"
                )
        return cls(**values)
