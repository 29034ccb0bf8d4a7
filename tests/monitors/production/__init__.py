"""Tests of what production becomes."""
