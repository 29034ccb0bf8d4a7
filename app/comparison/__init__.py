"""Comparisons, gates, judge checks and analyses of stored runs."""
