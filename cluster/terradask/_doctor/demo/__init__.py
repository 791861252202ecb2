"""The main job on the embedded AWS, shown step by step: every step checks its promise.

It uses a user's interfaces: the settings file, ``Workspace``, ``Cluster``, botocore, Dask. Only
`run_demo` depends on the embedded AWS.
"""
