"""A local process for each running instance that is a host: what its user data and its unit say."""
