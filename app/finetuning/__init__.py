"""Training data for a judge, from human ratings."""
