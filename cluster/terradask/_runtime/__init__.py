"""Clusters in life: deployments, start and stop, attaching, scaling, leaving."""
