"""Cost of plans and running resources by the hour and month, from AWS's price list."""
