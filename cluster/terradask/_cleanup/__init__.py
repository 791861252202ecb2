"""What an interruption leaves of a network or a cluster, and orphans: found by tag and name, adopted or deleted."""
