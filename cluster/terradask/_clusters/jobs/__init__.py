"""Jobs: commands that a cluster runs; what is submitted, and what is recorded of them."""
