"""AWS on this machine: moto behind an HTTP endpoint, stricter where AWS is, with metadata,
addresses and sessions of its instances.
"""
