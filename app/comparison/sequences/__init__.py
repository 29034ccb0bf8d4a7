"""Runs that are looked at one after another."""
