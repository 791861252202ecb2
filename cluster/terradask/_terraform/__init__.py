"""The seam to Terraform: commands in one stack's folder, their events and errors, the state and its
lock, the provider.
"""
