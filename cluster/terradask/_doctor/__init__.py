"""What is missing on this machine and in this account, and how to mend it."""
