"""What a host decides, as pure functions: no AWS, no Dask, no clock of their own."""
