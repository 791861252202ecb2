"""Plans: read, checked by policy, rendered, saved, and applied as reviewed."""
