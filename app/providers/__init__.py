"""Judges, translators and encoders."""
