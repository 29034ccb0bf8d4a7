"""Erasure and retention: what removes texts from everywhere."""
