"""The network: what clusters read of it, and what is given."""
