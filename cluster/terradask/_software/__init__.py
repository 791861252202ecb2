"""The packages that hosts install, in exact versions: the client's, or those of a file."""
