"""Clusters as they are deployed: their documents, keys, start, stop, attach, status, events."""
