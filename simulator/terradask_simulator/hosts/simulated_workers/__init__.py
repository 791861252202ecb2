"""Dask workers without machines, a hundred in a process, so that a thousand join a real scheduler
on a laptop.

`child_process` is the daemon's side, which assigns instances to processes. `worker_process` is such
a process, `simulated_host` one of its hosts, `run` their shared state.
"""
