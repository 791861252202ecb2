"""Plans: read, check, render and save them, and apply them as reviewed."""
