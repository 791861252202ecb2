"""Deployed clusters as they are: documents, status, logs, events, costs, reports. Reads only."""
