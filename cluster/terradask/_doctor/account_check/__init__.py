"""The account check of `terradask doctor --live`: the lifetime of a small cluster, step by step.

It runs in a temporary workspace, which is removed again. The demo shares the steps, their runner
and the check for leftovers.
"""
