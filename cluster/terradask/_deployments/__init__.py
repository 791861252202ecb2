"""Deployed clusters: their documents, keys, start, stop, attach, status and events."""
