"""Conda packages: environment files, the solver, locked archives."""
