"""Instance types of a region, and the choice among them: pure, except for the catalog and the
listing with prices.
"""
