"""Rubrics: their files, and the pages and resource that show them."""
