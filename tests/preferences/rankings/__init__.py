"""Tests of rankings and leaderboards."""
