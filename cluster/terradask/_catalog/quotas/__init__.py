"""AWS's quotas: the need of a launch, the account's limits, and their comparison."""
