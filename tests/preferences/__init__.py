"""Tests of preferences: pairs, and runs over runs."""
