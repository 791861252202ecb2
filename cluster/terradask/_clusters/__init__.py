"""Deployed clusters: start, attach, stop, their jobs."""
