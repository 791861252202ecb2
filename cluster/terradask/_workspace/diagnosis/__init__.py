"""The archive of ``terradask debug``: everything readable of one cluster, without secrets."""
