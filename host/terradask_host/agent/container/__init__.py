"""The user's container image: pull by digest, unpack, run Dask's process in it."""
