"""Workspace: plans, applies, lists and removes the network and clusters."""
