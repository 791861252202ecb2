"""Session Manager: a port of a host, forwarded to this machine's loopback by AWS's own plugin, with
no inbound rule.
"""
