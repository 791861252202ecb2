"""Run a local process for each running instance that is a host, by its user data and its unit."""
