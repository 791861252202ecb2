"""Workspace: plans, applies, lists and removes the network and clusters; the parts that it is
composed of.
"""
