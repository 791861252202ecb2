"""The network: what it tells its clusters, what is given, what an interruption leaves of it."""
