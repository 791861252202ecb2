"""Where the network's state lies: its bucket, moving there and back, breaking a lock."""
