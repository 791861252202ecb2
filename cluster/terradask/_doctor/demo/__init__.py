"""The main job, shown as it runs on the embedded AWS: every step checks what it promises.

It uses what a user would use: the settings' file, ``Workspace``, ``Cluster``, boto3, Dask. Only
`run_demo` knows that AWS is embedded.
"""
