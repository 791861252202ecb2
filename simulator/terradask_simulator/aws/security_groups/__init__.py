"""Security groups, evaluated for what hosts connect to.

`table` describes the account's interfaces, groups and names. `on_hosts` is a folder of its own on
the Python path of hosts, whose processes evaluate that table for each connection.
"""
