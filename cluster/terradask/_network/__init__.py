"""The deployed network as clusters read it, and given network resources."""
