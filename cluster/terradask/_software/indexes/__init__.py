"""Package indexes that uv or pip is configured with, and their credentials."""
