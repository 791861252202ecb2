"""Find what is missing on this machine and in the account; the account check."""
