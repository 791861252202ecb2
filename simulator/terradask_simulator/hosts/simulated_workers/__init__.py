"""Dask workers without machines, a hundred in a process, so that a thousand join a real scheduler
on a laptop.

`child_process` is the daemon's side: which instances are in which process.
`worker_process` is such a process, `simulated_host` one host in it, `run` what its hosts share.
"""
