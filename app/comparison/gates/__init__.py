"""Gates and their archive."""
