"""What people write when they ask for hardware: read and checked, whatever AWS has."""
