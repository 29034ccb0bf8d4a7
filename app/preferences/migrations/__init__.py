"""Migrations of what preferences add to the tables of batches."""
