"""Tests of monitors."""
