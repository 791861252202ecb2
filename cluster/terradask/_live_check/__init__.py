"""The account check of `terradask doctor --live`: the real life of a small cluster, step by step.

It is in a workspace of its own, which is removed again.
"""
