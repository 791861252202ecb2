"""What machines AWS has in a region, and which of them fit what was asked for."""
