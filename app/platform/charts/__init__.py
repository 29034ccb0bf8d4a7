"""Vega-Lite charts for pages and files."""
