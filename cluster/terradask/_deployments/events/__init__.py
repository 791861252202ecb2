"""Events of a cluster and its hosts, with times and reasons, from AWS's scaling activities and the
hosts' reports.
"""
