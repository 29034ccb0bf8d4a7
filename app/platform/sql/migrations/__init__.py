"""Migrations of the schema."""
