"""Targets that a cluster's tasks reach or not, the refuser, and the lines that open them. Pure."""
