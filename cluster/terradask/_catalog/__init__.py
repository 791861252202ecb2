"""What AWS offers in a region: instance types, prices, quotas."""
