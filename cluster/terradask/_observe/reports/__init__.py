"""What a run did: Dask's performance report and the run's events, which outlive the cluster."""
