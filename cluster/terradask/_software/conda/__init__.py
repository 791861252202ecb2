"""Packages of conda: environment files, the solver, locked archives."""
