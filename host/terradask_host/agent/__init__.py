"""The host program: from the instance's identity to its Dask process, and to its leaving."""
