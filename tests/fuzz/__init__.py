"""Hostile input by the thousand: what no example-based test would think of."""
