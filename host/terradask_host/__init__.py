"""The program that each instance of a cluster runs."""
