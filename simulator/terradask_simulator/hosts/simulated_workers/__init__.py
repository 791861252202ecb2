"""Hollow hosts: Dask workers without machines, a hundred in a process, so that a thousand join a real scheduler on a laptop.

`crews` is the daemon's side: which instances are in which process. `crew` is such a process, `host` one host in it.
"""
