"""What people prefer: kept, read back, and given to rankings."""
