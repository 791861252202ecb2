"""From settings to a stack's folder: AWS look-ups, locked answers, Terraform's configuration."""
