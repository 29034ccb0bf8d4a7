"""The schema's history."""
