"""Migrations of monitors."""
