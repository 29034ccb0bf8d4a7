"""Migrations of adopted runs."""
