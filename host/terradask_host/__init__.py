"""The program that each instance of a cluster runs."""

__version__ = "0.1.0"
