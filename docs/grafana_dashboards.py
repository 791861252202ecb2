"""Build the dashboards for Grafana, of the gauges that CloudWatch and Prometheus have."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from grafana_foundation_sdk.builders import cloudwatch, common, prometheus, timeseries
from grafana_foundation_sdk.builders.dashboard import Dashboard, DatasourceVariable, QueryVariable
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.variants import Dataquery
from grafana_foundation_sdk.models.cloudwatch import MetricEditorMode, MetricQueryType
from grafana_foundation_sdk.models.dashboard import DataSourceRef, VariableRefresh

from terradask_host.gauges import DIMENSIONS, NAMESPACE


@dataclass(frozen=True)
class Plot:
    """One plot: its title, its unit as Grafana calls it, and its gauges."""

    title: str
    unit: str
    gauges: tuple[str, ...]


PLOTS = (
    Plot(
        "Workers",
        "short",
        ("workers_running", "workers_idle", "workers_paused", "workers_retiring", "threads"),
    ),
    Plot(
        "Tasks to do",
        "short",
        ("tasks_waiting", "tasks_queued", "tasks_no_worker", "tasks_processing"),
    ),
    Plot("Tasks done", "short", ("tasks_in_memory", "tasks_erred")),
    Plot("Memory and disks of workers", "bytes", ("worker_memory_bytes", "worker_spilled_bytes")),
    Plot(
        "Use of workers and scheduler",
        "percent",
        ("worker_cpu_percent", "worker_memory_percent_max", "scheduler_cpu_percent"),
    ),
    Plot(
        "Traffic of workers' hosts",
        "Bps",
        ("worker_received_bytes_per_second", "worker_sent_bytes_per_second"),
    ),
    Plot(
        "Lag of event loops",
        "s",
        ("scheduler_event_loop_lag_seconds", "worker_event_loop_lag_seconds_max"),
    ),
    Plot("Memory of the scheduler", "bytes", ("scheduler_memory_bytes",)),
    Plot("Clients", "short", ("clients",)),
)

#: What both have as a variable, so that a dashboard shows one cluster.
_NAMES = ("workspace", "cluster")
_ALIVE = "workers_running"


def cloudwatch_dashboard() -> str:
    """Return the dashboard of CloudWatch's metrics, as JSON."""

    def target(name: str) -> Builder[Dataquery]:
        return (
            cloudwatch.CloudWatchMetricsQuery()
            .metric_query_type(MetricQueryType.SEARCH)
            .metric_editor_mode(MetricEditorMode.BUILDER)
            .region("$region")
            .namespace(NAMESPACE)
            .metric_name(name)
            .dimensions({key: f"${key.lower()}" for key in DIMENSIONS})
            .match_exact(match_exact=True)
            .statistic("Maximum")
            .period("60")
            .label(name)
            .ref_id(name)
        )

    def values(name: str) -> str:
        key = name.capitalize()
        given = "" if name == "workspace" else ",{Workspace: $workspace}"
        return f"dimension_values($region,{NAMESPACE},{_ALIVE},{key}{given})"

    region = _variable("region", "regions()", "cloudwatch")
    return _dashboard("cloudwatch", "CloudWatch", target, values, [region])


def prometheus_dashboard() -> str:
    """Return the dashboard of Prometheus's metrics, as JSON."""

    def target(name: str) -> Builder[Dataquery]:
        labels = ",".join(f'{label}="${label}"' for label in _NAMES)
        return (
            prometheus.Dataquery()
            .expr(f"{NAMESPACE}_{name}{{{labels}}}")
            .legend_format(name)
            .ref_id(name)
        )

    def values(name: str) -> str:
        given = "" if name == "workspace" else '{workspace="$workspace"}'
        return f"label_values({NAMESPACE}_{_ALIVE}{given}, {name})"

    return _dashboard("prometheus", "Prometheus", target, values, [])


def _dashboard(
    kind: str,
    source: str,
    target: Callable[[str], Builder[Dataquery]],
    values: Callable[[str], str],
    more: Iterable[QueryVariable],
) -> str:
    made = (
        Dashboard(f"terradask: a cluster, from {source}")
        .uid(f"terradask-{kind}")
        .tags(["terradask", "dask"])
        .description("https://github.com/terradask/terradask/blob/main/docs/metrics.md")
        .refresh("1m")
        .time("now-3h", "now")
        .timezone("utc")
        .with_variable(DatasourceVariable("source").label(source).type(kind))
    )
    for variable in (*more, *(_variable(name, values(name), kind) for name in _NAMES)):
        made.with_variable(variable)
    for plot in PLOTS:
        panel = (
            timeseries.Panel()
            .title(plot.title)
            .unit(plot.unit)
            .min(0)
            .span(8)
            .height(8)
            .fill_opacity(10)
            .datasource(_source(kind))
            .legend(common.VizLegendOptions().show_legend(show_legend=True))
        )
        for name in plot.gauges:
            panel.with_target(target(name))
        made.with_panel(panel)
    return JSONEncoder(indent=1, sort_keys=True).encode(made.build()) + "\n"


def _variable(name: str, query: str, kind: str) -> QueryVariable:
    return (
        QueryVariable(name)
        .query(query)
        .datasource(_source(kind))
        .refresh(VariableRefresh.ON_TIME_RANGE_CHANGED)
    )


def _source(kind: str) -> DataSourceRef:
    return DataSourceRef(kind, "$source")
