"""People: their ratings, rounds, the reliability of judges, and training data."""
