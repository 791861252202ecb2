"""From settings to a stack's folder: AWS lookups, locked answers, Terraform's configuration."""
