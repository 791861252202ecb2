"""What an interruption leaves in AWS without Terraform's knowing: found by tag and name, imported into a plan, or removed."""
