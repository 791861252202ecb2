"""Cluster: a SpecCluster attached to a deployment, which it scales; `terradask.function`."""
