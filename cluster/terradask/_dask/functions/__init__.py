"""Functions that run on a cluster of their own hardware: the decorator ``terradask.function``."""
