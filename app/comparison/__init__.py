"""Comparisons, gates, judge checks and analyses of stored runs, and reference metrics of a file of answers."""
