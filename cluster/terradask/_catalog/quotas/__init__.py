"""AWS's quotas: what a launch needs, what the account has, whether there is room."""
