"""AWS on this machine: moto behind an HTTP endpoint, as strict as AWS, with metadata, addresses and
sessions of instances.
"""
