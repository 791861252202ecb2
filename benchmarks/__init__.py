"""Measurements of terradask, each compared with what a user would use instead. ``make bench`` runs
them all.
"""
