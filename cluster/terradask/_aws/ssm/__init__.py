"""Session Manager: a host's port on this machine's loopback, by AWS's plugin."""
