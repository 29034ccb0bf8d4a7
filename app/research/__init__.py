"""Side products for research, which the service does not import: reference metrics and training data for a judge."""
