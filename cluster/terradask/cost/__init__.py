"""What a plan costs by the hour and by the month, from AWS's own price list."""
