"""The user's container image: pulled by digest, unpacked, and Dask's process in it."""
