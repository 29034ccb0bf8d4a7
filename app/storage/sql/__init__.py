"""SQL: where the truth is kept."""
