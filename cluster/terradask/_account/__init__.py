"""The caller's AWS account: sessions, what it may do and how much, what is missing on this machine."""
