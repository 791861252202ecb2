"""Measurements of terradask, each beside what a user would use instead. ``make bench`` runs them all."""
