"""The host program: reads the instance's identity, runs Dask, leaves the cluster."""
