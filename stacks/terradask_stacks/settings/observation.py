"""What a cluster keeps of what it did."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from terradask_stacks.settings.base import Section


class ObservationSettings(Section):
    """A cluster's settings for what it keeps of what it did."""

    performance_report: Literal["off", "without_source", "with_source"] = Field(
        default="without_source",
        description="Whether the scheduler's host keeps Dask's performance report at a run's end "
        "and on request, for `terradask report`: off, without_source (names and places of "
        "functions, no lines of code), or with_source.",
    )
    metrics: Literal["off", "cloudwatch"] = Field(
        default="off",
        description="cloudwatch: the scheduler's host writes the cluster's gauges once a minute, "
        "of which CloudWatch makes metrics, billed by the hour. off: only Prometheus has them, if "
        "it asks the scheduler.",
    )
