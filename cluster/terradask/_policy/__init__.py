"""Policy: what a plan must not do, found in its JSON alone. Knows neither boto3 nor Dask."""
