"""HTTP: one file a resource. Errors become statuses in `problems`, and only there."""
