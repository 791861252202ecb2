"""The main job on the embedded AWS, shown step by step: every step checks its promise.

It uses the same interfaces as a user: the settings file, ``Workspace``, ``Cluster``, boto3, Dask.
Only `run_demo` depends on the embedded AWS.
"""
