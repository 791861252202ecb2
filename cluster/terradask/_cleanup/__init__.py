"""Find leftovers of interrupted commands, and orphans, by tag and name; adopt or delete them."""
