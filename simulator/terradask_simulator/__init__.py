"""The embedded AWS: moto behind a real endpoint, with hosts that boot as local processes."""
