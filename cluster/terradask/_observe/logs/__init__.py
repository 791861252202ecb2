"""Logs of a cluster's hosts, read from CloudWatch: also of runs that have ended, and of clusters
that are destroyed.
"""
