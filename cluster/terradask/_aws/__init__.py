"""The caller's AWS: sessions whose errors are typed, groups, credentials, rate limits, launch
problems, Session Manager.
"""
