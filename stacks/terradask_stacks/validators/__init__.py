"""AWS's and our own rules for single values: each function returns the value, or raises with what
is allowed.
"""
