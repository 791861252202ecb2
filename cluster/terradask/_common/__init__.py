"""Helpers for every package: progress, clock, masking of secrets. Independent of AWS and Dask."""
