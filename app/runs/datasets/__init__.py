"""Uploaded datasets."""
