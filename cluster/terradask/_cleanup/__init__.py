"""Leftovers of an interrupted network or cluster, and orphans: found by tag and name, adopted or
deleted.
"""
