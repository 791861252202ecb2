"""Plans: read, judged, shown, kept, and applied as they were reviewed."""
