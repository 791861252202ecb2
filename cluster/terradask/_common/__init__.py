"""Helpers for every package: progress, clock, signals. Independent of AWS and Dask."""
