"""Policy: check a plan's JSON for what it must not do. Uses neither boto3 nor Dask."""
