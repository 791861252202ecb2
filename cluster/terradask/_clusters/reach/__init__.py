"""What a cluster's tasks reach: targets, who refuses one, and the lines that open it. Pure."""
