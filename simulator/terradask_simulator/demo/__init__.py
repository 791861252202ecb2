"""The main job of ``terradask demo`` on the embedded AWS, in steps that check what they promise.

It uses the same interfaces as a user: the settings file, ``Workspace``, ``Cluster``, boto3, Dask.
Only here does the simulator's distribution import terradask, whose extra `demo` installs both.
"""
