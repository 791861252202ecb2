"""From settings to a stack's folder: questions to AWS, locked answers, synthesis."""
