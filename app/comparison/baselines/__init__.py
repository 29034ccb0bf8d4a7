"""Baselines by name."""
