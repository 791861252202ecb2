"""The caller's AWS: sessions with typed errors, groups, credentials, rate limits, launch problems,
Session Manager.
"""
