"""Deployed clusters as documents and AWS show them: status, logs, events, costs, reports."""
