"""Policy: forbidden contents of a plan's JSON. Uses neither boto3 nor Dask."""
