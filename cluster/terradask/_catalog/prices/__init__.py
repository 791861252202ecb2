"""What a plan, and what runs, costs by the hour and by the month, from AWS's own price list."""
