"""Uploaded files and datasets."""
