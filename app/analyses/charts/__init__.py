"""Charts of analyses."""
