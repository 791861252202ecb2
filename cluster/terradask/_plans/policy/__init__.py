"""Policy: forbidden contents of a plan's JSON. Uses neither botocore nor Dask."""
