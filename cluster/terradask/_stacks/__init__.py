"""From settings to a stack's folder: questions to AWS, locked answers, synthesis; what stays outside of Terraform's reach."""
