"""The scheduler's own pages beside the dashboard's, which clients ask for over mutual TLS and
without Dask's protocol.
"""

#: What the paths of clients' own begin with. No link that a browser opens leads there.
OWN = "/terradask/"

#: Takes commands.
COMMAND_PAGE = "/terradask/command"

#: Has the gauges, for Prometheus with its own certificate.
METRICS_PAGE = "/metrics"
