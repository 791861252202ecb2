"""The network: what it tells its clusters, and what is given."""
