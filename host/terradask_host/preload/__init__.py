"""Code inside the Dask process; only here may distributed be imported."""
