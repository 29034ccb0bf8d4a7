"""What processes share through Redis."""
