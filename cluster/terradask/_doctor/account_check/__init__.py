"""The account check of `terradask doctor --live`: the real life of a small cluster, step by step.

It is in a workspace of its own, which is removed again. Steps, their runner and the proof that
nothing is left are the demo's too.
"""
