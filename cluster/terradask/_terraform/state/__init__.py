"""Terraform's state: its place, its lock, breaking a lock, detecting an older version."""
