"""Instance types of a region, and the choice among them: pure, but for the catalog and the listing
with prices.
"""
