"""What must hold of an account, and what may be left in it."""
