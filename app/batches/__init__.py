"""Batches: taken in, worked off, summarised and given out."""
