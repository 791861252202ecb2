"""Run Terraform in one stack's folder: commands, events and errors, the state and its lock, the
provider.
"""
