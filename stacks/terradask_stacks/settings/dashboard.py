"""Where a cluster's dashboard is served, and whether a notebook server is."""

from __future__ import annotations

from pydantic import Field

from terradask_stacks.settings.base import Port, Section


class DashboardSettings(Section):
    """A cluster's settings for its dashboard."""

    dashboard_port: Port = Field(
        default=8787, description="Port of the dashboard, behind mutual TLS."
    )
    use_dashboard_https: bool = Field(
        default=False,
        description="Serve the dashboard also over HTTPS at the scheduler's host, for people "
        "without terradask. It needs the "
        "token in the link that `terradask dashboard --shared` prints; network.ingress (or "
        "cluster.ingress) must admit the "
        "browser to dashboard_https_port.",
    )
    dashboard_https_port: Port = Field(
        default=8788,
        description="Port of the dashboard over HTTPS, if use_dashboard_https is true.",
    )
    jupyter: bool = Field(
        default=False,
        description="Run a notebook server (JupyterLab) on the scheduler's host, in its own "
        "process behind mutual TLS: `terradask jupyter` opens it. With use_dashboard_https also "
        "over HTTPS, with a token of its own. Hosts need the package jupyterlab.",
    )
