"""The scheduler's own pages beside the dashboard's, which clients ask for over mutual TLS and
without Dask's protocol: part of what they rely on.
"""

#: What the paths of most begin with. No link that a browser opens leads there.
OWN = "/terradask/"

#: Has the link for people without a certificate.
LINK_PAGE = "/terradask/shared-dashboard"

#: Has a performance report made and kept.
REPORT_PAGE = "/terradask/report"

#: Has the gauges, for Prometheus with its own certificate.
METRICS_PAGE = "/metrics"
