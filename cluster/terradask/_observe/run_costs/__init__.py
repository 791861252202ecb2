"""Accounts of runs: which instances a run had, when, and what an hour of each cost."""
