"""Dask clusters in your own AWS account, as Terraform you can review."""
