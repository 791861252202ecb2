"""The running environment's packages: where each came from, which of them hosts can have, and in
which versions.
"""
