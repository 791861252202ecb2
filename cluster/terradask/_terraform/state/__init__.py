"""Terraform's state: where it lies, its lock, moving it, breaking a lock, noticing an older one."""
