"""A host's decisions as pure functions: no AWS, no Dask, no clock."""
