"""Runs in SQL."""
