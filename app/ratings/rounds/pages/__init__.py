"""Rounds for those who set them up and those who are invited."""
